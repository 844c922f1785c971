"""Times of the same calls in two versions of the library, side by side, in one run on this machine.

    git worktree add --detach ../before b5cd539
    python benchmarks/before_after.py ../before

Each version runs in a process of its own; the two take turns, and the least CPU time of a call on one thread counts,
which is what a busy machine disturbs least. The table is written to ``benchmarks/results/before-after.md``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from time import thread_time

HERE = Path(__file__).resolve().parent
TURNS, CALLS = 2, 6
METHODS = (
    "annealed-difference-map", "difference-map", "alternating-map", "admm", "irls", "lars", "stomp", "aiht", "niht",
    "subspace-pursuit", "omp", "ormp", "vamp",
)  # fmt: skip


def calls():
    """The calls to be timed, by name."""
    import numpy as np

    import sparsect
    from sparsect import images

    problem = sparsect.random_problem(400, 1000, 60, snr_db=20, batch=64, rng=0)
    single = sparsect.random_problem(400, 1000, 60, snr_db=20, batch=64, rng=0, dtype=np.float32)
    small = sparsect.random_problem(40, 80, 6, snr_db=20, rng=0)
    image = np.random.default_rng(0).random((96, 96), dtype=np.float32)
    wide, narrow = sparsect.as_operator(problem.Phi), sparsect.as_operator(single.Phi)
    found = {}
    for method in METHODS:
        signals = 1 if method == "irls" else 64
        found[f"{method}, {signals} signals, 400x1000, float64"] = lambda m=method, k=signals: sparsect.recover(
            wide, problem.y[:k], 60, m, max_iter=60, record=()
        )
    found["annealed-difference-map, 64 signals, 400x1000, float32"] = lambda: sparsect.recover(
        narrow, single.y, 60, "annealed-difference-map", max_iter=60, record=()
    )
    found["annealed-difference-map, one signal, 40x80"] = lambda: sparsect.recover(
        small.Phi, small.y[0], 6, "annealed-difference-map", max_iter=60
    )
    found["omp, one signal, 40x80"] = lambda: sparsect.recover(small.Phi, small.y[0], 6, "omp")
    found["reconstruct, 96x96 pixels, stride 10"] = lambda: images.reconstruct(image, 40, stride=10, max_iter=30)
    found["denoise, 96x96 pixels"] = lambda: images.denoise(image, 0.2)
    return found


def times() -> dict[str, float]:
    """The least CPU time of each call in seconds."""
    warnings.simplefilter("ignore")
    least = {}
    for name, call in calls().items():
        try:
            call()
        except Exception as error:  # a call that one of the versions does not know is left out
            print(f"{name}: {error}", file=sys.stderr)
            continue
        seconds = []
        for _ in range(CALLS):
            start = thread_time()
            call()
            seconds.append(thread_time() - start)
        least[name] = min(seconds)
    return least


def in_version(root: Path) -> dict[str, float]:
    """The times of the version whose checkout is in ``root``."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = os.environ | threads | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, __file__, "--times"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main(before: Path) -> None:
    versions = {"before": before.resolve(), "after": HERE.parent}
    least: dict[str, dict[str, float]] = {name: {} for name in versions}
    for turn in range(TURNS):
        for name, root in versions.items():
            for call, seconds in in_version(root).items():
                least[name][call] = min(seconds, least[name].get(call, seconds))
        print(f"turn {turn + 1} of {TURNS}", file=sys.stderr)
    commit = subprocess.run(
        ["git", "-C", str(before), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    from machine import Report  # of the newer version, which has the module it needs

    with Report(HERE / "results" / "before-after.md", "Times before and after the code was rearranged") as report:
        text = (
            f"`python benchmarks/before_after.py` with a checkout of {commit}. CPU time of one thread, the least of "
            f"{TURNS * CALLS} calls; the two versions took turns."
        )
        lines = ["| call | before, ms | after, ms | after / before |", "|---|---|---|---|"]
        for call in least["after"]:
            if call in least["before"]:
                old, new = (1e3 * least[name][call] for name in versions)
                lines.append(f"| {call} | {old:.2f} | {new:.2f} | {new / old:.2f} |")
        report.section("The same calls", text, lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["--times"]:
        json.dump(times(), sys.stdout)
    elif len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        sys.exit(__doc__)
