"""Dictionary learning beside scikit-learn, SPAMS and K-SVD: the error on signals not used, everybody coded alike.

Run ``OMP_NUM_THREADS=1 python benchmarks/learning.py`` after ``pip install sparsect[peers]``; tables are printed and
written to results/learning.md, and the error against seconds is drawn in results/learning.png (with ``--picture``, that
alone). Photographs are read from ``--data``. Takes about half an hour. Seconds are those of the processor, on one
thread. Olivetti's faces are not in scikit-learn's package and are left out.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path

import machine
import matrices
import numpy as np
import spams
from dictlearn import DictionaryLearning
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, MiniBatchDictionaryLearning

import sparsect
from sparsect import images, sets
from sparsect.dictionary import ArraySource, learn
from sparsect.images import PatchSource
from sparsect.reporting import plots

HERE = Path(__file__).parent
# Okabe-Ito colours, which colour-blind readers can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#E69F00", "#CC79A7", "#F0E442", "#009E73", "#000000")
SEEDS, PATCHES, HELD_OUT = 2, 20_000, 5000
# Penalties of the others, as fractions of the size of the signals (root mean square norm).
PENALTIES = (0.05, 0.1, 0.2)


def digits():
    """Scikit-learn's digits, 1,300 to learn from, the others held out."""
    rows = np.random.default_rng(0).permutation(load_digits().data)
    return rows[:1300], rows[1300:]


def patches(folder, side):
    """Patches of 38 photographs, and patches of 12 others, held out."""
    found = images.ImageFolder(folder, 240)
    small = [images.resize(found[int(index)], 320) for index in np.linspace(0, len(found) - 1, 50).round()]

    def drawn(chosen, size, seed):
        source = PatchSource(chosen, side, size, rng=seed, batch_size=500)
        return np.concatenate([source.batch(index) for index in range(source.batches)]).astype(np.float64)

    return drawn(small[:38], PATCHES, 0), drawn(small[38:], HELD_OUT, 1)


def planted(count, sparsity, seed):
    """Signals of a random dictionary of 100 atoms of 50 numbers at 20 dB, others held out, and the dictionary."""
    generate = np.random.default_rng(seed)
    truth = generate.standard_normal((50, 100))
    truth /= np.linalg.norm(truth, axis=0)

    def drawn(rows):
        codes = np.zeros((rows, 100))
        for row in codes:
            row[generate.choice(100, sparsity, replace=False)] = generate.standard_normal(sparsity)
        signals, noise = codes @ truth.T, generate.standard_normal((rows, 50))
        return signals + 0.1 * np.linalg.norm(signals) / np.linalg.norm(noise) * noise

    return drawn(count), drawn(2000), truth


def decibels(signals, errors):
    return 20 * math.log10(np.linalg.norm(signals) / np.linalg.norm(errors))


def coded(Phi, signals, sparsity, method="omp", **options):
    """The SNR in dB of signals coded with atoms of norm 1; those of others that are zero are left out."""
    lengths = np.linalg.norm(Phi, axis=0)
    Phi = np.ascontiguousarray((Phi / np.where(lengths > 0, lengths, 1))[:, lengths > 1e-9])
    limit = sets.Sparse(min(sparsity, Phi.shape[1]), **options)
    return decibels(signals, sparsect.recover(Phi, signals, limit, method, record=(), check_fit=False).residual_norm)


def size(signals):
    return float(np.sqrt(np.mean(np.sum(signals**2, axis=1))))


def ours(signals, n_atoms, sparsity, seed, **options):
    start = time.process_time()
    learned = learn(ArraySource(signals), n_atoms, sparsity=sparsity, rng=seed, **options)
    return learned.Phi, time.process_time() - start


def spams_learned(signals, n_atoms, mode, limit, seconds, seed):
    """Online learning for a time: mode 3 codes with so many nonzeros, mode 2 with an l1 penalty.

    SPAMS itself counts seconds of the clock, in which others may run, too; so the number of iterations is found by a
    trial.
    """
    columns = np.asfortranarray(signals.T)
    first = columns[:, np.random.default_rng(seed).permutation(len(signals))[:n_atoms]] + 1e-6
    first = np.asfortranarray(first / np.linalg.norm(first, axis=0))
    options = {"K": n_atoms, "mode": mode, "lambda1": limit, "batchsize": 512, "numThreads": 1, "verbose": False}

    def trained(count):
        start = time.process_time()
        return np.array(spams.trainDL(columns, D=first, iter=count, **options)), time.process_time() - start

    count = 10
    while (spent := trained(count)[1]) < seconds / 5:
        count *= 3
    return trained(max(1, round(count * seconds / spent)))


def ksvd_learned(signals, n_atoms, sparsity, seconds, seed):
    """Approximate K-SVD with OMP (Rubinstein et al. 2008) for a time, from the same first atoms as SPAMS."""
    atoms = signals[np.random.default_rng(seed).permutation(len(signals))[:n_atoms]] + 1e-6
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    start = time.process_time()
    while time.process_time() - start < seconds:
        model = DictionaryLearning(
            n_atoms, fit_algorithm="aksvd", n_nonzero_coefs=sparsity, max_iter=2, dict_init=atoms, random_state=seed
        )
        atoms = model.fit(signals).components_
    return atoms.T, time.process_time() - start


def scikit_learned(signals, n_atoms, penalty, passes, seed, **options):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MiniBatchDictionaryLearning(
            n_atoms, alpha=penalty, max_iter=passes, batch_size=256, random_state=seed, fit_algorithm="cd", **options
        ).fit(signals)
    return model.components_.T, time.process_time() - start


def summary(runs):
    """Mean SNR by OMP with its standard error, mean SNR by ormp, and mean seconds."""
    scores, others, seconds = np.array(runs).T
    error = f" ± {np.std(scores, ddof=1) / len(scores) ** 0.5:.2f}" if len(scores) > 1 else ""
    return f"{scores.mean():.2f}{error} | {others.mean():.2f} | {seconds.mean():.1f}"


def contenders(signals, held_out, n_atoms, sparsity, passes):
    """Label, and a list of SNR by OMP, SNR by ormp, and seconds."""

    def scored(learned):
        return *(coded(learned[0], held_out, sparsity, coder) for coder in ("omp", "ormp")), learned[1]

    ours(signals[: 10 * n_atoms], n_atoms, sparsity, 0, rounds=2)
    yield "here", (here := [scored(ours(signals, n_atoms, sparsity, seed)) for seed in range(SEEDS)])
    yield "here, 12 rounds", [scored(ours(signals, n_atoms, sparsity, seed, rounds=12)) for seed in range(SEEDS)]
    seconds = np.mean([each[-1] for each in here])
    yield "SPAMS, l0", [scored(spams_learned(signals, n_atoms, 3, sparsity, seconds, seed)) for seed in range(SEEDS)]
    for fraction in PENALTIES:
        penalty = fraction * size(signals)
        runs = [scored(spams_learned(signals, n_atoms, 2, penalty, seconds, seed)) for seed in range(SEEDS)]
        yield f"SPAMS, l1, penalty {fraction:g}", runs
    yield "K-SVD", [scored(ksvd_learned(signals, n_atoms, sparsity, seconds, seed)) for seed in range(SEEDS)]
    for fraction in PENALTIES[1:]:
        penalty = fraction * size(signals)
        runs = [scored(scikit_learned(signals, n_atoms, penalty, passes, 0))]
        yield f"scikit-learn, penalty {fraction:g}, {passes} passes", runs


def comparison(cases):
    yield "| data | s | method | SNR by omp | by ormp | seconds |"
    yield "|---|---|---|---|---|---|"
    for label, (signals, held_out), n_atoms, sparsities, passes in cases:
        for sparsity in sparsities:
            for method, runs in contenders(signals, held_out, n_atoms, sparsity, passes):
                yield f"| {label}, {n_atoms} atoms | {sparsity} | {method} | {summary(runs)} |"


def found(Phi, truth):
    """How many atoms were found."""
    return int(np.sum(np.max(np.abs(truth.T @ Phi), axis=1) > 0.99))


def recovery():
    yield "| s | signals | found here | SNR | seconds | SPAMS l0: found | SNR | SPAMS l1: found | SNR | truth: SNR |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for sparsity in (3, 5):
        for count in (2000, 5000, 20_000, 50_000):
            signals, held_out, truth = planted(count, sparsity, 7)
            Phi, seconds = ours(signals, 100, sparsity, 0)
            cells = [f"{found(Phi, truth)} | {coded(Phi, held_out, sparsity):.2f} | {seconds:.1f}"]
            others = [(3, sparsity)] + [(2, fraction * size(signals)) for fraction in PENALTIES]
            learned = [spams_learned(signals, 100, *other, seconds, 0)[0] for other in others]
            best = max(learned[1:], key=lambda Phi, truth=truth: found(Phi, truth))
            cells += [f"{found(Phi, truth)} | {coded(Phi, held_out, sparsity):.2f}" for Phi in (learned[0], best)]
            yield f"| {sparsity} | {count:,} | {' | '.join(cells)} | {coded(truth, held_out, sparsity):.2f} |"


def limits():
    """Few signals, or many atoms in each."""
    yield "| s | signals | uses of an atom | found here | SPAMS l0 | SPAMS l1 | SNR here | truth: SNR |"
    yield "|---|---|---|---|---|---|---|---|"
    for sparsity, count in [*((3, count) for count in (100, 200, 400, 800, 1600)),
                            *((sparsity, 20_000) for sparsity in (8, 12, 16, 20, 24))]:  # fmt: skip
        signals, held_out, truth = planted(count, sparsity, 7)
        Phi, seconds = ours(signals, 100, sparsity, 0)
        others = [(3, sparsity)] + [(2, fraction * size(signals)) for fraction in PENALTIES]
        theirs = [found(spams_learned(signals, 100, *other, seconds, 0)[0], truth) for other in others]
        scores = (f"{coded(each, held_out, sparsity, 'ormp'):.2f}" for each in (Phi, truth))
        cells = sparsity, f"{count:,}", count * sparsity // 100, found(Phi, truth), theirs[0], max(theirs[1:]), *scores
        yield f"| {' | '.join(map(str, cells))} |"


def convergence(cases, path):
    """Draw the error on signals held out, coded by ormp, against the seconds of learning; each point is a run."""
    figure = plots.new_figure((5.5 * len(cases), 4.2))
    for place, (label, (signals, held_out), n_atoms, sparsity, passes) in enumerate(cases):
        axes = figure.add_subplot(1, len(cases), place + 1)
        ours(signals[: 10 * n_atoms], n_atoms, sparsity, 0, rounds=2)
        ksvd_learned(signals[: 10 * n_atoms], n_atoms, sparsity, 0.1, 0)
        runs = {"here": [ours(signals, n_atoms, sparsity, 0, rounds=rounds) for rounds in (3, 6, 12, 24, 45, 90)]}
        most = runs["here"][-1][1]
        times = [seconds for seconds in (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32) if seconds < 2 * most]
        runs["SPAMS, l0"] = [spams_learned(signals, n_atoms, 3, sparsity, seconds, 0) for seconds in times]
        for fraction in PENALTIES:
            penalty = fraction * size(signals)
            learned = [spams_learned(signals, n_atoms, 2, penalty, seconds, 0) for seconds in times]
            runs[f"SPAMS, l1, penalty {fraction:g}"] = learned
        runs["K-SVD"] = [ksvd_learned(signals, n_atoms, sparsity, seconds, 0) for seconds in times]
        penalty = PENALTIES[1] * size(signals)
        learned = [scikit_learned(signals, n_atoms, penalty, count, 0) for count in passes]
        runs[f"scikit-learn, penalty {PENALTIES[1]:g}"] = learned
        for (method, learned), colour in zip(runs.items(), COLOURS, strict=True):
            seconds = [each for _, each in learned]
            scores = [coded(Phi, held_out, sparsity, "ormp") for Phi, _ in learned]
            axes.plot(seconds, scores, marker="o", markersize=4, color=colour, label=method)
            yield (
                f"| {label}, s = {sparsity} | {method} | "
                + ", ".join(f"{score:.2f} in {each:.1f} s" for score, each in zip(scores, seconds, strict=True))
                + " |"
            )
        axes.set(xscale="log", xlabel="CPU seconds of learning", title=f"{label}, {n_atoms} atoms, s = {sparsity}")
        axes.set_ylabel("SNR of signals held out (dB)")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)


def nonnegative():
    yield "| s | method | SNR by nonnegative omp, dB | by the annealed map | seconds |"
    yield "|---|---|---|---|---|"
    signals, held_out = digits()
    annealed = sparsect.AnnealedDifferenceMap("approximation")
    signs = {"nonnegative_codes": True, "nonnegative_atoms": True}

    def line(sparsity, label, learned):
        scores = [f"{coded(learned[0], held_out, sparsity, way, nonnegative=True):.2f}" for way in ("omp", annealed)]
        return f"| {sparsity} | {label} | {' | '.join(scores)} | {learned[1]:.1f} |"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        factors = NMF(100, init="random", max_iter=300, random_state=0).fit(signals).components_.T
        seconds = time.process_time() - start
    for sparsity in (3, 5, 10):
        ours(signals, 100, sparsity, 0, rounds=2, **signs)
        for rounds in (6, 45):
            yield line(sparsity, f"here, {rounds} rounds", ours(signals, 100, sparsity, 0, rounds=rounds, **signs))
        for fraction in PENALTIES:
            options = {"positive_code": True, "positive_dict": True}
            learned = scikit_learned(signals, 100, fraction * size(signals), 20, 0, **options)
            yield line(sparsity, f"scikit-learn, penalty {fraction:g}, 20 passes", learned)
        yield line(sparsity, "scikit-learn NMF", (factors, seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with images/val")
    parser.add_argument("--picture", action="store_true", help="measure and draw the error against seconds alone")
    arguments = parser.parse_args()
    folder = arguments.data / "images" / "val"
    cases = (
        ("digits", digits(), 100, (3, 5, 10), 20),
        ("8x8 patches", patches(folder, 8), 128, (4, 8, 16), 2),
        ("12x12 patches", patches(folder, 12), 256, (4, 8, 16), 1),
    )
    curves = [
        ("digits", cases[0][1], 100, 5, (1, 4, 20, 80)),
        ("8x8 patches", cases[1][1], 128, 8, (1, 2, 4)),
    ]
    packages = ("numpy", "scikit-learn", "spams-bin", "dictlearn")
    if arguments.picture:
        for line in convergence(curves, HERE / "results" / "learning.png"):
            print(line, flush=True)
        return
    with machine.Report(HERE / "results" / "learning.md", "Dictionary learning", packages) as report:
        report.section(
            "Error on signals held out",
            f"Signals that were not used for learning, coded by one and the same OMP with s nonzeros, and by ormp, the "
            f"coder of this package and of SPAMS: SNR in dB, mean over {SEEDS} seeds with its standard error (one seed "
            "for scikit-learn). SPAMS and K-SVD learn for as long as the default here, from signals as first atoms. "
            "Penalties are fractions of the root mean square norm of the signals; which is best for an s "
            "is not known beforehand. One thread.",
            comparison(cases),
        )
        report.section(
            "Error against seconds",
            "Signals held out, coded by ormp; each point is a run of its own with that time, or so many rounds or "
            "passes. Drawn in learning.png.",
            ["| data | method | SNR in dB |", "|---|---|---|", *convergence(curves, HERE / "results" / "learning.png")],
        )
        report.section(
            "Atoms of a planted dictionary",
            "100 random atoms of 50 numbers, s of them in each signal with normal coefficients, 20 dB. Found: inner "
            "product above 0.99 with a learned atom. SPAMS learns for as long as this package; l1 with the best of "
            "three penalties.",
            recovery(),
        )
        report.section(
            "Where a planted dictionary is not found",
            "The same with fewer signals, or with more atoms in each. N signals have 50 N numbers; their s N "
            "coefficients and the 49 numbers of each of 100 atoms of norm 1 have to be determined by them, so that "
            "4,900 / (50 - s) signals are the least: 105 at s = 3. And the codes must be found once the dictionary is "
            "known, which l1 minimization does up to s = 0.39 m = 19 with twice as many atoms as numbers (Donoho and "
            "Tanner 2009), without noise. *Truth*: the planted dictionary itself, by ormp. Learning here fails with 20 "
            "and 24 atoms in each signal of 50 numbers, where SPAMS with an l1 penalty still finds many of the atoms. "
            "SPAMS with l1 also finds more with 800 signals.",
            limits(),
        )
        report.section(
            "Nonnegative codes and atoms",
            "Digits, 100 atoms; digits held out, coded with s nonnegative nonzeros. NMF has no limit on nonzeros while "
            "learning.",
            nonnegative(),
        )


if __name__ == "__main__":
    main()
