"""Tune what has parameters, and write the values that ship with the package.

Run ``python benchmarks/tuned_defaults.py random-measurements`` or ``... image-patches FOLDER``, FOLDER holding training
photographs: about half an hour each on two cores, resumable. Writes src/sparsect/data/tuned-SETTING.json and a picture
of each grid in results/. ``... admm-by-sparsity`` (ten minutes) tunes ADMM for each sparsity alone and writes
results/tuned-admm-by-sparsity.json, for benchmarks/solvers.py.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from sparsect import Problem, images, load_dictionary
from sparsect.backend.writing import replacing
from sparsect.images import PatchSource
from sparsect.reporting import plots
from sparsect.tuning import Training, tune

HERE = Path(__file__).parent
PHOTOGRAPHS = "PHOTOGRAPHS"


@dataclass(frozen=True)
class Patches:
    """Patches of training photographs, coded with the bundled dictionary; the folder is told by an environment
    variable, so that the record holds no path."""

    patches: int = 100
    sparsities: tuple[int, ...] = (100, 200)
    seed: int = 10_000_000

    def draw(self) -> list[Problem]:
        source = PatchSource(images.ImageFolder(os.environ[PHOTOGRAPHS], 20), 20, 16 * self.patches, rng=self.seed)
        return [Problem(load_dictionary().operator, source.batch(0)[: self.patches], s) for s in self.sparsities]


# IRLS takes a hundred times as long for an iteration as the others: it is tuned on smaller problems of the same
# proportions, and on fewer patches.
SETTINGS = {
    "random-measurements": {
        "difference-map": (Training(), 500),
        "admm": (Training(), 600),
        "irls": (Training(m=200, n=500, sparsities=(25, 50, 75, 88, 100), problems=4), 150),
    },
    "image-patches": {
        "difference-map": (Patches(), 300),
        "admm": (Patches(), 200),
        "irls": (Patches(patches=8), 30),
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=[*SETTINGS, "admm-by-sparsity"])
    parser.add_argument("folder", nargs="?", help="training photographs, for image-patches")
    parser.add_argument("--method", action="append", help="only this one; repeatable")
    arguments = parser.parse_args()
    if arguments.folder is not None:
        os.environ[PHOTOGRAPHS] = arguments.folder
    if arguments.setting == "admm-by-sparsity":
        by_sparsity()
        return
    path = HERE.parent / "src/sparsect/data" / f"tuned-{arguments.setting}.json"
    shipped = json.loads(path.read_text()) if path.exists() else {}
    for method, (training, max_iter) in SETTINGS[arguments.setting].items():
        if arguments.method and method not in arguments.method:
            continue
        result = tune(
            method,
            training,
            max_iter=max_iter,
            rows=HERE.parent / "out" / f"tuning-{arguments.setting}-{method}.rows.jsonl",
            progress=lambda done, total, least, method=method: print(
                f"{method}: {done}/{total}, {least:.3e}", flush=True
            ),
        )
        print(f"{method}: {result.values}, mean squared error {result.error:.3e}")
        plots.tuning(result, HERE / "results" / f"tuning-{arguments.setting}-{method}.png")
        shipped[method] = {name: value for name, value in asdict(result).items() if name != "stages"}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(shipped, indent=1) + "\n")


def by_sparsity():
    found = {}
    for s in Training.sparsities:
        rows = HERE.parent / "out" / f"tuning-admm-{s}.rows.jsonl"
        found[s] = tune("admm", Training(sparsities=(s,), problems=4), max_iter=600, rows=rows).values
        print(s, found[s], flush=True)
    with replacing(HERE / "results" / "tuned-admm-by-sparsity.json") as temporary:
        temporary.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
