"""Learn the dictionaries that the package includes from patches of photographs, and compare them.

Run ``python benchmarks/bundled_dictionaries.py --images TRAIN --held-out VAL --output FOLDER --device cuda``. Each
dictionary is written to FOLDER as soon as it is learned; the tables are printed and written to FOLDER/bundled.md.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import machine
import numpy as np

import sparsect
from sparsect import images
from sparsect.backend.arrays import from_numpy, namespace, on_host, to_numpy
from sparsect.backend.devices import batch_rows, described, place, wait_for
from sparsect.backend.files import write_npz
from sparsect.dictionary import ArraySource, learn, load_dictionary
from sparsect.images import PatchSource

# Side of a patch, atoms, nonzeros while learning, and nonzeros at which dictionaries are compared.
SIZES = {
    "8x8": (8, 256, 6, (2, 3, 6, 16)),
    "12x12": (12, 512, 14, (4, 7, 14, 36)),
    "20x20": (20, 1000, 40, (10, 20, 40, 100)),
}
PASSES, SEED, COMPARED = 2, 1, 20_000
# The rounds of mini-batches at the least, even if the time does not suffice.
FEWEST = 12
# Which part of the patches the trial uses, and the time that drawing a sample of all takes, as a fraction of a pass.
TRIAL, DRAWING = 20, 0.3
# How the time is divided.
SHARES = {"8x8": 1.0, "12x12": 1.5, "20x20": 4.5}


class Clock:
    """Seconds of each round of learning, as its progress reports them."""

    def __init__(self):
        self.rounds, self._last = [], time.perf_counter()

    def __call__(self, step):
        if len(step.dictionary.rounds) == step.round:
            wait_for(step.dictionary.Phi)
            now = time.perf_counter()
            self.rounds.append(now - self._last)
            self._last = now


def rates(like):
    """Bytes a second of a copy, and operations a second of a product, on the device of an array."""
    xp = namespace(like)
    big = xp.ones((20_000 if on_host(like) else 200_000, 1000), dtype=like.dtype, device=like.device)

    def seconds(work):
        times = []
        for _ in range(4):
            start = time.perf_counter()
            wait_for(work())
            times.append(time.perf_counter() - start)
        return min(times)

    with sparsect.backend.devices.summing(like):
        return 2 * big.nbytes / seconds(lambda: big + 0), 2 * big.shape[0] * 1e6 / seconds(lambda: big.T @ big)


def floor(count, pixels, atoms, sparsity, copied, multiplied):
    """Seconds that coding a number of patches and its statistics take if memory and products are the only limits.

    A selection reads the products of the columns selected before with all atoms, and writes one.
    """
    moved = 4 * atoms * (sparsity * (sparsity - 1) / 2 + sparsity)
    products = 2 * atoms * (2 * pixels + atoms)
    return count * (moved / copied + products / multiplied)


def snr(Phi, signals, sparsity):
    coded = sparsect.recover(Phi, signals, sparsity, "ormp", max_iter=sparsity, record=(), check_fit=False)
    return 20 * np.log10(np.linalg.norm(to_numpy(signals)) / np.linalg.norm(to_numpy(coded.residual_norm)))


def drawn(folder, patch, size, device):
    source = PatchSource(folder.on_device(device), patch, size, rng=SEED, batch_size=min(size, batch_rows(patch**2)))
    return (
        source
        if size > COMPARED
        else namespace(source.batch(0)).concat([source.batch(index) for index in range(source.batches)])
    )


def halved(dictionary, path):
    """Write a dictionary with its atoms in half precision, and read it again."""
    write_npz(path, dictionary.arrays() | {"Phi": to_numpy(dictionary.Phi).astype(np.float16)})
    return load_dictionary(path)


def learned(name, arguments, like, seconds):
    """Learn a dictionary in about so many seconds; return it, and the times and numbers of rounds and passes."""
    patch, atoms, sparsity, _ = SIZES[name]
    train = images.ImageFolder(arguments.images, smallest=patch, device=arguments.device)
    held_out = images.ImageFolder(arguments.held_out, smallest=patch, device=arguments.device)
    batch = ArraySource.BATCH if on_host(like) else batch_rows(patch**2)
    source = PatchSource(train, patch, arguments.patches, rng=SEED, batch_size=batch)
    validation = PatchSource(held_out, patch, 5000, rng=SEED + 1)
    options = {"sparsity": sparsity, "rng": SEED, "validation": validation, "about": arguments.about}
    begun = time.perf_counter()
    # Two rounds of mini-batches, the first of which includes compiling, and a pass over some of the patches.
    trial, part = Clock(), max(1, arguments.patches // TRIAL)
    few = PatchSource(train, patch, part, rng=SEED, batch_size=min(batch, part))
    learn(few, atoms, rounds=3, passes=1, progress=trial, **options)
    whole = trial.rounds[-1] * arguments.patches / part
    left = begun + seconds - time.perf_counter() - (PASSES + DRAWING) * whole
    rounds = max(FEWEST, int(left / trial.rounds[1])) + PASSES
    clock = Clock()
    dictionary = learn(source, atoms, rounds=rounds, passes=PASSES, patience=rounds, progress=clock, **options)
    steps = [taken for taken, numbers in zip(clock.rounds, dictionary.rounds, strict=True) if numbers["remembered"]]
    passes = clock.rounds[len(steps) :]
    return dictionary, np.median(steps), len(steps), np.mean(passes), len(passes), time.perf_counter() - begun


def times(arguments, like, found):
    yield "| patches | atoms | s | rounds | s a round | passes | s a pass | floor | ratio | seconds in all |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    speed, shares = rates(like), sum(SHARES[name] for name in arguments.names)
    for name in arguments.names:
        patch, atoms, sparsity, _ = SIZES[name]
        dictionary, step, steps, whole, passes, seconds = learned(
            name, arguments, like, arguments.seconds * SHARES[name] / shares
        )
        stored = halved(dictionary, arguments.output / f"dictionary-{name}.npz")
        found[name] = dictionary, stored
        least = floor(arguments.patches, patch**2, atoms, sparsity, *speed)
        yield (
            f"| {arguments.patches:,} of {name} | {atoms} | {sparsity} | {steps} | {step:.3f} | {passes} | {whole:.2f} "
            f"| {least:.2f} | {whole / least:.1f} | {seconds:.0f} |"
        )


def quality(arguments, like, found):
    yield "| patches | s | SNR, dB | in half precision | the paper's recipe |"
    yield "|---|---|---|---|---|"
    paper = load_dictionary("paper")
    for name, (dictionary, stored) in found.items():
        patch, *_, sparsities = SIZES[name]
        folder = images.ImageFolder(arguments.held_out, smallest=patch)
        signals = drawn(folder, patch, COMPARED, arguments.device)
        for sparsity in sparsities:
            scores = [snr(from_numpy(to_numpy(each.Phi), signals), signals, sparsity) for each in (dictionary, stored)]
            old = ""
            if paper.Phi.shape[0] == patch**2:
                old = f"{snr(from_numpy(paper.Phi, signals), signals, sparsity):.2f}"
            yield f"| {name} | {sparsity} | **{scores[0]:.2f}** | {scores[1] - scores[0]:+.4f} | {old} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", required=True, help="folder of photographs to learn from")
    parser.add_argument("--held-out", required=True, help="folder of other photographs")
    parser.add_argument("--output", type=Path, required=True, help="folder for the dictionaries")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--patches", type=int, default=10_000_000, help="number of patches to learn from")
    parser.add_argument("--seconds", type=float, default=420, help="seconds for all dictionaries, about")
    parser.add_argument("--names", nargs="+", default=list(SIZES), choices=SIZES, help="which dictionaries")
    parser.add_argument("--about", default="200 train photographs of BSDS500", help="description of the photographs")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    like, found = place(np.zeros(1, dtype=np.float32), arguments.device), {}
    packages = ("numpy",) if on_host(like) else ("numpy", "torch")
    gpu = None if on_host(like) else described(like)
    with machine.Report(arguments.output / "bundled.md", "Bundled dictionaries", packages, gpu) as report:
        report.section(
            "Time",
            "A round of mini-batches codes 20 times 256 patches (4,096 on a GPU), a pass all of them. The floor of a "
            "pass: what order-recursive matching pursuit has to read and write, at the bandwidth of a copy, and the "
            "products at the rate of a large product, both measured here. In all: with the trial rounds that tell how "
            "many rounds there is time for, drawing, and everything else.",
            times(arguments, like, found),
        )
        report.section(
            "Error",
            f"{COMPARED:,} patches of the photographs held out, means removed, coded by order-recursive matching "
            "pursuit with s nonzeros. Half precision: how the files store atoms, and the change by it. The paper's "
            "recipe: the "
            "dictionary of 20x20 patches learned with a penalty from as many patches of the same photographs.",
            quality(arguments, like, found),
        )
    print("files:", {path.name: path.stat().st_size for path in sorted(arguments.output.glob("*.npz"))})


if __name__ == "__main__":
    main()
