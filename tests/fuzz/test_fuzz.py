"""Calls and files drawn at random: whatever comes, there is a sound answer or a clear error.

``make fuzz`` tries thousands more. What must hold is in ``fuzz_calls.py`` and ``fuzz_files.py``.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("fuzzing.py")


@pytest.mark.parametrize("kind", ["calls", "files"])
def test_an_answer_or_a_clear_error(kind, pytestconfig):
    """All cases in one other process, so that a crash of it can be told."""
    seed, cases = pytestconfig.getoption("--fuzz-seed"), pytestconfig.getoption("--fuzz-cases")
    command = [sys.executable, str(SCRIPT), kind, str(seed), "0", str(cases - 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = [line for line in lines if "outcome" in line]
    failures = [line for line in outcomes if line["outcome"] == "failed"]
    if done.returncode:
        last = lines[-1]["case"] if lines else 0
        failures.append({"case": last, "log": [f"ended with {done.returncode}"], "words": done.stderr[-5000:]})
    if failures:
        words = [
            f"{kind}, seed {seed}, case {each['case']}: {each['log']}\n{each['words']}"
            f"alone: python tests/fuzz/fuzzing.py {kind} {seed} {each['case']} {each['case']}"
            for each in failures
        ]
        pytest.fail(f"{len(failures)} of {cases} cases\n\n" + "\n\n".join(words[:20]), pytrace=False)
    assert len(outcomes) == cases
    # Errors alone would say little.
    answered = sum(line["outcome"] == "answered" for line in outcomes)
    assert answered >= cases // 10
