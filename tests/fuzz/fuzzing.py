"""Generated cases, one after the other, in a process of its own: a crash or a hang in one is told from the outside.

    python tests/fuzz/fuzzing.py calls SEED FIRST LAST
    python tests/fuzz/fuzzing.py files SEED FIRST LAST

runs the cases FIRST to LAST and writes a line of JSON before and after each. What a case is depends on the seed and its
number alone.
"""

import faulthandler
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import sparsect

# Memory that a case may take on top of what the process has reserved before the first.
MEMORY = 4 * 2**30
# A case takes a fraction of a second; one that takes this many seconds will never end.
HANGS = 300
# More than anybody reads.
LONGEST_MESSAGE = 1000


class Refused(Exception):
    """Bad input was told to be so."""


def answer(function, *arguments, others=(), **options):
    """What a call returns; ``Refused`` if it raises an InputError that somebody can read, or one of the others."""
    try:
        return function(*arguments, **options)
    except sparsect.InputError as error:
        if not 0 < len(str(error)) < LONGEST_MESSAGE:
            raise
        raise Refused(str(error)) from None
    except others as error:
        raise Refused(str(error)) from None


def pick(rng, *options):
    """One of the options, as it is: NumPy would turn them into an array."""
    return options[rng.integers(len(options))]


def words(value):
    """A value in a few words, whatever it is."""
    try:
        return repr(value)[:60]
    except ValueError:  # more digits than Python writes
        return "a very large number"


def limit_memory():
    """Let allocations fail rather than take the machine with them."""
    if sys.platform != "linux":
        return
    import resource

    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (reserved + MEMORY, resource.RLIM_INFINITY))


def run(kind, seed, first, last):
    """Run cases and write what becomes of each."""
    if kind == "calls":
        import fuzz_calls as cases
    else:
        import fuzz_files as cases
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", sparsect.ConvergenceWarning)
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        # Names of files that are made up are relative.
        os.chdir(folder)
        case = cases.Cases(Path(folder))
        limit_memory()
        for number in range(first, last + 1):
            print(json.dumps({"case": number}), flush=True)
            faulthandler.dump_traceback_later(HANGS, exit=True)
            log, outcome, reason = [], "answered", ""
            try:
                case(np.random.default_rng([seed, number]), log)
            except Refused as error:
                outcome, reason = "refused", str(error)
            except BaseException:
                outcome, reason = "failed", traceback.format_exc()
            print(json.dumps({"case": number, "outcome": outcome, "log": log, "words": reason}), flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    # As the module that the cases import, so that there is one ``Refused``.
    import fuzzing

    fuzzing.run(sys.argv[1], *map(int, sys.argv[2:]))
