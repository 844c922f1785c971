"""Tune what has parameters on random measurements, and write the values that ship with the package.

Run ``python benchmarks/tuned_defaults.py``: half an hour on two cores, resumable. Writes
src/sparsect/data/tuned-random-measurements.json and a picture of each grid in results/.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from sparsect import files, plots
from sparsect.tuning import tune

HERE = Path(__file__).parent
ITERATIONS = {"difference-map": 500, "admm": 300, "irls": 100}


def main():
    shipped = {}
    for method, max_iter in ITERATIONS.items():
        rows = HERE.parent / "out" / f"tuning-{method}.rows.jsonl"
        result = tune(
            method,
            max_iter=max_iter,
            rows=rows,
            progress=lambda done, total, least, method=method: print(
                f"{method}: {done}/{total}, {least:.3e}", flush=True
            ),
        )
        print(f"{method}: {result.values}, mean squared error {result.error:.3e}")
        plots.tuning(result, HERE / "results" / f"tuning-{method}.png")
        shipped[method] = {name: value for name, value in asdict(result).items() if name != "stages"}
    with files.replacing(HERE.parent / "src/sparsect/data/tuned-random-measurements.json") as temporary:
        temporary.write_text(json.dumps(shipped, indent=1) + "\n")


if __name__ == "__main__":
    main()
