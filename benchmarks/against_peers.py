"""Quality against time on patches of photographs: other packages and every solver here, on the same data and threads.

Run ``python benchmarks/against_peers.py FOLDER`` with a folder of photographs that no dictionary was learned from, and
``pip install sparsect[peers]`` before. Writes results/against-peers.md and its picture. Takes about twenty minutes on
two cores. Nothing else should run beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import machine
import matplotlib.pyplot as plt
import numpy as np
import spams
from patches import signals

import sparsect
from sparsect.backend.writing import replacing
from sparsect.images.settings import tuned_for_images
from sparsect.kernels.sparse_product import DENSE_FRACTION
from sparsect.operators.least_squares import refit
from sparsect.problems import Problem
from sparsect.reporting.look import PAGE, look

HERE = Path(__file__).parent
SPARSITIES = (100, 200)
ANNEALED = "annealed-difference-map"
BUDGETS = (15, 30, 60, 120, 250, 500, 1000, 2000)
PATCHES, FEWER, FEWEST = 2000, 200, 20
# Solvers of this package whose names the picture has room for, and names that stand to the left of their point.
NAMED = ("ormp", "admm", "difference-map", "irls", "alternating-map")
ON_THE_LEFT, ABOVE = ("SPAMS lasso", "ormp"), ("SPORCO BPDN",)
# The colour of other packages.
OTHERS = PAGE["faint"][0]
MEMORY = """
import json, resource, sys, time
import numpy as np, sparsect
patches = int(sys.argv[1])
side = int(patches ** 0.5) * 20
image = np.random.default_rng(0).random((side, side)).astype(np.float32)
sparsect.images.reconstruct(image[:200, :200], 100, max_iter=5)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
sparsect.images.reconstruct(image, 100, max_iter=60)
seconds = time.perf_counter() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([(side // 20) ** 2, seconds, (after - before) / 1024, side * side * 4 / 2**20]))
"""


def snr(problem, x):
    error = problem.operator.forward(x.astype(problem.y.dtype)) - problem.y
    return float(10 * np.log10(float((problem.y**2).sum()) / float((error**2).sum())))


def sized(problem, count):
    return problem.take(np.linspace(0, problem.batch - 1, min(count, problem.batch)).round().astype(int))


def ours():
    """Label, solver, iterations, patches."""
    for budget in BUDGETS:
        yield ANNEALED, tuned_for_images(ANNEALED), budget, PATCHES
    yield "ormp (ours)", tuned_for_images("ormp"), 1000, PATCHES
    yield "omp (ours)", tuned_for_images("omp"), 1000, PATCHES
    for method, budgets, patches in (
        ("difference-map", (100, 300, 1000), FEWER),
        ("alternating-map", (100, 300), FEWER),
        ("admm", (30, 100, 300), FEWER),
        ("irls", (20, 50), FEWEST),
        ("aiht", (100, 300), FEWER),
        ("niht", (100, 300), FEWER),
        ("subspace-pursuit", (30,), FEWER),
        ("stomp", (30,), FEWER),
        ("lars", (1000,), FEWEST),
    ):
        for budget in budgets:
            yield f"{method} (ours)", tuned_for_images(method), budget, patches


def measured(problem, solver, budget, count):
    """SNR with a final fit on the support, and seconds for a patch, the fit included; the better of two runs."""
    part, seconds = sized(problem, count), []
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = sparsect.solve(part, solver, max_iter=budget, record=(), refit=True)
        seconds.append(result.seconds / part.batch)
    return snr(part, result.x), min(seconds)


def peers():
    """Label, a function from (Phi, patches, s, setting) to codes, the settings to choose from, patches."""
    from abess.linear import LinearRegression
    from skglm import GeneralizedLinearEstimator
    from skglm.datafits import Quadratic
    from skglm.penalties import MCPenalty
    from skglm.solvers import AndersonCD
    from sklearn.decomposition import sparse_encode
    from sporco.admm.bpdn import BPDN

    threads = os.cpu_count()

    def spams_omp(Phi, y, s, _):
        return spams.omp(np.asfortranarray(y.T), Phi, L=s, eps=0.0, numThreads=threads).toarray().T

    def spams_lasso(Phi, y, s, share):
        return spams.lasso(np.asfortranarray(y.T), Phi, lambda1=share, numThreads=threads).toarray().T

    def sklearn_omp(Phi, y, s, _):
        return sparse_encode(y, Phi.T, algorithm="omp", n_nonzero_coefs=s)

    def sklearn_lars(Phi, y, s, share):
        return sparse_encode(y, Phi.T, algorithm="lasso_lars", alpha=share)

    def sporco_bpdn(Phi, y, s, share):
        options = BPDN.Options({"Verbose": False, "MaxMainIter": 200, "RelStopTol": 1e-3})
        return np.asarray(BPDN(Phi, y.T, share, options).solve()).T

    def skglm_mcp(Phi, y, s, share):
        solver = AndersonCD(max_iter=20, fit_intercept=False)
        model = GeneralizedLinearEstimator(Quadratic(), MCPenalty(share, 3.0), solver)
        return np.array([model.fit(Phi, row).coef_.copy() for row in y])

    def abess(Phi, y, s, _):
        return np.array([LinearRegression(support_size=s, fit_intercept=False).fit(Phi, row).coef_ for row in y])

    # Penalties are chosen, for each s, so that a fit on the s largest entries is best on other patches.
    small = (0.1, 0.03, 0.01, 0.003)
    yield "SPAMS omp", spams_omp, (None,), PATCHES
    yield "SPAMS lasso", spams_lasso, small, FEWER
    yield "scikit-learn omp", sklearn_omp, (None,), FEWER
    yield "scikit-learn lasso_lars", sklearn_lars, small, FEWEST
    yield "SPORCO BPDN", sporco_bpdn, small, FEWER
    yield "skglm MCP", skglm_mcp, tuple(share / 400 for share in (*small, 0.001, 0.0003)), FEWEST
    yield "abess", abess, (None,), FEWEST


def peer_measured(problem, training, code, settings, count):
    """As for ours: SNR of the fit on its s largest entries, seconds for a patch without that fit; the better of two."""
    s, Phi = problem.sparsity, np.asfortranarray(problem.operator.Phi, dtype=np.float64)

    def run(part, setting):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            codes = code(Phi, part.y.astype(np.float64), s, setting)
        seconds = (time.perf_counter() - start) / part.batch
        sparse = sparsect.project_sparse(codes.astype(np.float32), s)
        return snr(part, refit(part.operator, part.y, sparse)), seconds

    setting = settings[0]
    if len(settings) > 1:
        setting = max(settings, key=lambda value: run(sized(training, FEWEST), value)[0])
    outcomes = [run(sized(problem, count), setting) for _ in range(2)]
    return outcomes[0][0], min(seconds for _, seconds in outcomes)


def quality(folder):
    """SNR and seconds for a patch, by label and then sparsity, one pair for each budget."""
    rows = signals(folder, 20, 1)
    operator = sparsect.load_dictionary().operator
    operator.pseudo_inverse, operator.gram_matrix, operator.double_gram_matrix  # noqa: B018  before anything is timed
    points = {}
    for s in SPARSITIES:
        problem, training = Problem(operator, rows[:PATCHES], s), Problem(operator, rows[-PATCHES // 2 :], s)
        for label, solver, budget, count in ours():
            outcome = measured(problem, solver, budget, count)
            points.setdefault(label, {}).setdefault(s, []).append((*outcome, budget))
            print(s, label, outcome, flush=True)
        for label, code, settings, count in peers():
            outcome = peer_measured(problem, training, code, settings, count)
            points.setdefault(label, {}).setdefault(s, []).append((*outcome, None))
            print(s, label, outcome, flush=True)
    return points


def quality_table(points):
    yield "| | iterations | s = 100: dB | ms a patch | s = 200: dB | ms a patch |"
    yield "|---|---|---|---|---|---|"
    for label, by_sparsity in points.items():
        for at_100, at_200 in zip(*(by_sparsity[s] for s in SPARSITIES), strict=True):
            cells = [f"{value:.2f} | {1e3 * seconds:.2f}" for value, seconds, _ in (at_100, at_200)]
            yield f"| {label} | {at_100[2] or ''} | {' | '.join(cells)} |"


def time_to_match(points):
    """Time of the annealed map to the SNR of SPAMS, between the budgets measured, beside SPAMS' own."""
    yield "| s | SPAMS omp | ms a patch | annealed map to the same SNR: ms a patch | ratio |"
    yield "|---|---|---|---|---|"
    for s in SPARSITIES:
        level, theirs, _ = points["SPAMS omp"][s][0]
        values, seconds, _ = zip(*points[ANNEALED][s], strict=True)
        mine = float(np.exp(np.interp(level, values, np.log(seconds))))
        yield f"| {s} | {level:.2f} dB | {1e3 * theirs:.2f} | {1e3 * mine:.2f} | {mine / theirs:.2f} |"


def draw(points, path):
    figure, panels = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    for axes, s in zip(panels, SPARSITIES, strict=True):
        for label, by_sparsity in points.items():
            values, seconds, _ = zip(*by_sparsity[s], strict=True)
            name = label.removesuffix(" (ours)")
            mine, foreign = label == ANNEALED, label == name and label != ANNEALED
            line = look(name).line() | ({"color": OTHERS, "markerfacecolor": OTHERS, "marker": "."} if foreign else {})
            axes.plot(
                1e3 * np.array(seconds), values, **line, lw=2.2 if mine else 0.9, ms=9 if foreign else 5.5,
                zorder=3 if mine else 2, label=None if foreign else name,
            )  # fmt: skip
            if not (mine or foreign or name in NAMED):
                continue
            left = name in ON_THE_LEFT
            axes.annotate(
                "annealed Difference Map" if mine else name, (1e3 * seconds[-1], values[-1]),
                textcoords="offset points", xytext=(-7 if left else 7, 4 if name in ABOVE else -3),
                ha="right" if left else "left", fontsize=9.5 if mine else 8, color=line["color"],
                fontweight="bold" if mine else "normal",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("milliseconds for a patch, two cores")
        axes.set_ylabel("SNR of the patches (dB)")
        axes.set_title(f"{s} of 1,000 atoms", fontsize=11)
        axes.grid(alpha=0.25)
        axes.set_xlim(0.15, 2500)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    figure.suptitle("grey: other packages; solvers of this one are refitted", fontsize=9)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)
    plt.close(figure)


def product_rate(seconds=3.0):
    """Single-precision products of the shapes in use, all cores: floating-point operations a second, sustained."""
    generate = np.random.default_rng(0)
    left, right = (generate.standard_normal(shape).astype(np.float32) for shape in ((PATCHES, 400), (400, 1000)))
    out, count, start = np.empty((PATCHES, 1000), np.float32), 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        np.matmul(left, right, out=out)
        count += 1
    return 2 * PATCHES * 400 * 1000 * count / (time.perf_counter() - start)


def rate_table(folder):
    rows = signals(folder, 20, 1)[:PATCHES]
    operator, iterations = sparsect.load_dictionary().operator, 400
    rank, n = operator.pseudo_inverse.rank, operator.shape[1]
    yield "| s | operations done, GFLOP/s | of the machine's rate | with the products that sparsity saves, too |"
    yield "|---|---|---|---|"
    for s in SPARSITIES:
        problem = Problem(operator, rows, s)
        solver = tuned_for_images(ANNEALED)
        done = asked = 0.0
        for step in range(iterations):
            kept = solver._kept(problem, step / (iterations - 1), False)
            done += 2 * rank * (n + (kept if kept <= DENSE_FRACTION * n else n))
            asked += 2 * rank * 2 * n
        rates, times = [product_rate()], []
        for _ in range(3):
            times.append(sparsect.solve(problem, solver, max_iter=iterations, record=()).seconds)
            rates.append(product_rate())
        rate, seconds = np.median(rates), np.median(times)
        shares = [PATCHES * amount / seconds / rate for amount in (done, asked)]
        yield f"| {s} | {PATCHES * done / seconds / 1e9:.0f} of {rate / 1e9:.0f} | {shares[0]:.0%} | {shares[1]:.0%} |"


def plain(Phi, y, s, iterations):
    """The annealed map for one signal as one would write it in NumPy; seconds without the decomposition of Phi."""
    U, values, V = np.linalg.svd(Phi, full_matrices=False)
    kept = values > 1e-10 * values[0]
    U, values, V = U[:, kept], values[kept], V[kept]
    start = time.perf_counter()
    target = U.T @ y
    x = V.T @ (target * values / (values**2 + 0.15))
    for step in range(iterations):
        fraction = step / (iterations - 1)
        alpha, count = 0.15 ** (1 - fraction), int(np.ceil(s * (0.5 + 0.5 * min(1, fraction / 0.8))))
        w = V.T @ ((values * (V @ x) - target) * (values / (values**2 + alpha)))
        v = x - 2 * w
        u = np.zeros_like(x)
        largest = np.argpartition(np.abs(v), -count)[-count:]
        u[largest] = v[largest]
        x = x + 1.5 * (u - x + w)
    support = np.flatnonzero(u)
    u[support] = np.linalg.lstsq(Phi[:, support], y, rcond=None)[0]
    return time.perf_counter() - start


def single_table(rounds=5):
    problem = sparsect.random_problem(400, 1000, 150, 20, rng=0)
    operator, solver = sparsect.as_operator(problem.Phi), tuned_for_images(ANNEALED)
    operator.pseudo_inverse, operator.gram_matrix, operator.double_gram_matrix  # noqa: B018  before anything is timed
    pairs = [
        (
            plain(problem.Phi, problem.y[0], 150, 1000),
            sparsect.recover(operator, problem.y[0], 150, solver, max_iter=1000).seconds,
        )
        for _ in range(rounds)
    ]
    theirs, ours = np.median(pairs, axis=0)
    code = "import time; start = time.perf_counter(); import sparsect; print(time.perf_counter() - start)"
    imports = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    ]
    yield "| plain NumPy, s | sparsect, s | ratio | import of sparsect, s |"
    yield "|---|---|---|---|"
    yield f"| {theirs:.2f} | {ours:.2f} | {ours / theirs:.2f} | {np.median(imports):.2f} |"


def size_table():
    yield "| patches | ms a patch | memory above that of 100 patches, MiB | the image itself, MiB |"
    yield "|---|---|---|---|"
    for patches in (1024, 4096, 16384):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(patches)], capture_output=True, text=True, check=True, env=os.environ
        )
        count, seconds, memory, size = json.loads(done.stdout)
        yield f"| {count} | {1e3 * seconds / count:.2f} | {memory:.0f} | {size:.0f} |"


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder, path = sys.argv[1], HERE / "results" / "against-peers.md"
    packages = ("numpy", "scipy", "numba", "scikit-learn", "spams-bin", "sporco", "skglm", "abess")
    with machine.Report(path, "Quality against time, beside other packages", packages) as report:
        points = quality(folder)
        with replacing(path.with_suffix(".json")) as temporary:
            temporary.write_text(json.dumps(points))
        draw(points, path.with_suffix(".png"))
        report.section(
            "Patches of photographs",
            f"![quality against time](against-peers.png)\n\n{PATCHES} patches of 20x20 pixels of photographs that the "
            f"bundled dictionary was not learned from, means removed; slower methods on every tenth ({FEWER}) or "
            f"hundredth ({FEWEST}) of them. SNR over all patches after a least-squares fit on the s largest entries of "
            "the codes, for everybody. Time for one patch, all cores, the better of two runs; what depends on the "
            "dictionary alone is not counted for ours and is for the others, a hundredth of SPAMS' time; the final "
            "fit counts for ours and not for the others. Penalties of the others are the best of four to six, "
            "for each s, on other photographs; settings of ours are those shipped for images. skglm and abess take one "
            "patch at a time.",
            quality_table(points),
        )
        report.section("Time to the quality of SPAMS", "Interpolated between budgets.", time_to_match(points))
        report.section(
            "Use of the machine",
            f"The annealed map on {PATCHES} patches, 400 iterations and a final fit, in turns with three seconds of "
            f"products of {PATCHES}x400 with 400x1000; medians of three runs and four rates.",
            rate_table(folder),
        )
        report.section(
            "One signal",
            "One right-hand side, 400x1000, s = 150, 1,000 iterations, in turns; medians of five.",
            single_table(),
        )
        report.section(
            "Size", "`images.reconstruct` of square images, 60 iterations, s = 100, a process for each.", size_table()
        )


if __name__ == "__main__":
    main()
