"""The default beside every other method, on matrices of many kinds; and how often it finds the best support there is.

Run ``python benchmarks/real_matrices.py`` after ``pip install sparsect[peers]``. Tables are printed and written to
results/real-matrices.md, all scores to results/real-matrices.jsonl, one line for each kind and method. A run that was
interrupted continues where it stopped; ``--again auto`` measures the named methods anew. The lead field and the
photographs are read from ``--data``. Takes about twenty minutes on two cores, a process on each. Only qualities are
reported, so other work may run beside it.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections import Counter
from concurrent.futures import as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import machine
import matrices
import numpy as np
from matrices import FIT, KINDS, PLACES
from yardstick import posterior_mean

import sparsect
from sparsect.backend.journal import Journal
from sparsect.backend.processes import processes
from sparsect.images.settings import tuned_for_images
from sparsect.operators.least_squares import refit
from sparsect.operators.polishing import polish
from sparsect.sets import Sparse

HERE = Path(__file__).parent
SEED, PROBLEMS = 17_000_000, 10
DEFAULT, YARDSTICK, UNKNOWN = "auto", "yardstick", "unknown s"
# Differences below the first are level, above the second behind: in dB, and in percent of the sources.
LEVEL = {PLACES: (0.5, 3.0)}
LEVEL_DB = (0.05, 0.3)
# Points of a path of penalties that are tried, and the smallest penalty relative to the largest.
POINTS, SMALLEST = 60, 1e-4
PACKAGES = {"SPAMS": "spams-bin", "scikit-learn": "scikit-learn", "abess": "abess", "skglm": "skglm"}


def best_fit(case, y, path):
    """Of points of a path, cut to their s largest entries, the one on whose support y is fitted best."""
    operator = sparsect.as_operator(case.unit)
    points = sparsect.project_sparse(np.ascontiguousarray(path), case.kind.sparsity)
    rows = np.tile(y, (len(points), 1))
    errors = np.linalg.norm(refit(operator, rows, points) @ case.unit.T - y, axis=1)
    return points[np.argmin(errors)]


def spams_omp(case):
    import spams

    columns = np.asfortranarray(case.y.T)
    return spams.omp(columns, case.unit, L=case.kind.sparsity, eps=0.0, numThreads=1).toarray().T


def spams_lasso(case):
    """The path of LARS: points from where it has s nonzeros to its end."""
    import spams

    def path(y):
        column, steps = np.asfortranarray(y[:, None]), min(case.unit.shape)
        _, points = spams.lasso(column, case.unit, return_reg_path=True, L=steps, lambda1=0.0, numThreads=1)
        counts = np.count_nonzero(points, axis=0)
        begin, end = np.argmax(counts >= min(case.kind.sparsity, counts.max())), np.flatnonzero(counts)[-1]
        return points.T[np.unique(np.linspace(begin, end, POINTS).astype(int))]

    return np.array([best_fit(case, y, path(y)) for y in case.y])


def sklearn_omp(case):
    from sklearn.linear_model import orthogonal_mp

    return orthogonal_mp(case.unit, case.y.T, n_nonzero_coefs=case.kind.sparsity, precompute=True).reshape(
        case.unit.shape[1], -1
    ).T  # fmt: skip


def sklearn_lasso(case):
    """The lasso with the penalty of the smallest BIC; it is told the noise."""
    from sklearn.linear_model import LassoLarsIC

    def coded(y, variance):
        told = max(variance, 1e-8 * np.mean(y**2))
        model = LassoLarsIC("bic", fit_intercept=False, noise_variance=told, max_iter=2 * max(case.unit.shape))
        return model.fit(case.unit, y).coef_

    return np.array([coded(*row) for row in zip(case.y, case.noise_variance, strict=True)])


def abess(case):
    """Sizes from 1 to s, each started from the one before; its threshold for splicing expects large numbers in y."""
    from abess.linear import LinearRegression

    sizes = range(1, case.kind.sparsity + 1)
    model = LinearRegression(support_size=sizes, fit_intercept=False, ic_type="aic", ic_coef=0.0)
    scales = np.linalg.norm(case.y, axis=1) / 1e3
    return np.array([scale * model.fit(case.unit, y / scale).coef_ for y, scale in zip(case.y, scales, strict=True)])


def skglm_mcp(case):
    """A path of penalties, until there are more than s nonzeros; norms of columns are those that gamma = 3 is for."""
    from skglm.datafits import Quadratic
    from skglm.penalties import MCPenalty
    from skglm.solvers import AndersonCD

    m, n = case.unit.shape
    Phi, solver = case.unit * m**0.5, AndersonCD(fit_intercept=False, tol=1e-6)

    def path(y):
        # With columns and data of norm sqrt(m), tolerances and penalties have the sizes they are meant for.
        scale = np.linalg.norm(y) / m**0.5
        w, points = np.zeros(n), []
        for alpha in np.max(np.abs(Phi.T @ y)) / scale / m * np.geomspace(0.95, SMALLEST, POINTS):
            w = solver.solve(Phi, y / scale, Quadratic(), MCPenalty(alpha, 3.0), w, Phi @ w)[0]
            points.append(w * scale * m**0.5)
            if np.count_nonzero(w) > case.kind.sparsity:
                break
        return np.array(points)

    return np.array([best_fit(case, y, path(y)) for y in case.y])


PEERS = {
    "SPAMS omp": spams_omp,
    "SPAMS lasso": spams_lasso,
    "scikit-learn omp": sklearn_omp,
    "scikit-learn lasso": sklearn_lasso,
    "abess": abess,
    "skglm MCP": skglm_mcp,
}


def installed(package):
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def contenders(kind):
    """The methods for a kind: those here, those of others that are installed, and the yardstick."""
    yield from sparsect.METHODS
    for label in PEERS:
        # Where nothing but the fit counts, there is no noise that the criterion could be told.
        if installed(PACKAGES[label.split()[0]]) and not (kind.measure == FIT and label == "scikit-learn lasso"):
            yield label
    if kind.measure != FIT:
        yield UNKNOWN
        if kind.decibels is not None:
            yield YARDSTICK


def here(case, method):
    """The answers of a method of this package, and which of its parts gave them."""
    solver = sparsect.METHODS[method]()
    if case.kind.measure == FIT:
        solver = sparsect.Automatic("approximation") if method == DEFAULT else tuned_for_images(method)
    result = sparsect.recover(case.operator, case.y, case.kind.sparsity, solver, record=(), check_fit=False)
    return result.x * case.norms, solver.fitted, Counter(() if result.source is None else result.source.tolist())


def measured(label, methods, seed, problems, folder):
    """Rows of one kind: each method as it comes, refitted, and for those of this package polished."""
    case, rows = KINDS[label].draw(seed, problems, folder), []
    unit = sparsect.as_operator(case.unit)
    for method in methods:
        start, fitted, source = time.perf_counter(), False, {}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if method in sparsect.METHODS:
                z, fitted, source = here(case, method)
            elif method == UNKNOWN:
                z = sparsect.recover(case.operator, case.y, "auto", record=(), check_fit=False).x * case.norms
            else:
                z = posterior_mean(case) if method == YARDSTICK else PEERS[method](case)
            seconds = (time.perf_counter() - start) / problems
            z = np.where(np.isfinite(z), z, 0.0)
            if method != UNKNOWN:
                z = sparsect.project_sparse(z, case.kind.sparsity)
            scores = {method: case.score(z)}
            if not fitted and method not in (YARDSTICK, UNKNOWN):
                scores[f"{method}, refitted"] = case.score(refit(unit, case.y, z))
            if method in sparsect.METHODS:
                limit = Sparse(case.kind.sparsity).structure(unit.shape[1])
                scores[f"{method}, polished"] = case.score(polish(unit, case.y, z, limit)[0])
        rows.append({"kind": label, "method": method, "scores": scores, "seconds": seconds, "source": dict(source)})
    return rows


def tables(rows):
    """Scores by kind, then by method and variant."""
    found = {}
    for row in rows:
        found.setdefault(row["kind"], {}).update(
            {name: np.array(scores) for name, scores in row["scores"].items()}
        )  # fmt: skip
    return {label: found[label] for label in KINDS if DEFAULT in found.get(label, ())}


def compared(kind, scores):
    """Best of the others, by how much the default is behind it, the standard error of that, and a word for it."""
    others = {name: values for name, values in scores.items() if name not in (DEFAULT, YARDSTICK, UNKNOWN)}
    if not others:
        return None
    # Among equals, another method rather than the default with another ending.
    best = max(others, key=lambda name: (others[name].mean(), not name.startswith(DEFAULT)))
    behind, error = difference(others[best], scores[DEFAULT])
    level, limit = LEVEL.get(kind.measure, LEVEL_DB)
    return best, behind, error, "ahead" if behind < -level else "level" if behind <= limit else "behind"


def difference(values, reference):
    error = np.std(values - reference, ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return float(np.mean(values - reference)), float(error)


def summary(found):
    yield "| | kinds | ahead | level | behind | worst case |"
    yield "|---|---|---|---|---|---|"
    for title, chosen in (("developed on", (True,)), ("unseen", (False,)), ("all", (True, False))):
        outcomes = {
            label: compared(KINDS[label], scores)
            for label, scores in found.items()
            if KINDS[label].developed in chosen and compared(KINDS[label], scores)
        }
        if not outcomes:
            continue
        words = Counter(outcome[3] for outcome in outcomes.values())
        # Percents of sources and decibels are compared by how far they are beyond what counts as level.
        worst = max(outcomes, key=lambda label: outcomes[label][1] / LEVEL.get(KINDS[label].measure, LEVEL_DB)[1])
        best, behind, error, _ = outcomes[worst]
        counts = " | ".join(str(words[word]) for word in ("ahead", "level", "behind"))
        unit = "%" if KINDS[worst].measure == PLACES else "dB"
        yield f"| {title} | {len(outcomes)} | {counts} | {worst}: {behind:.2f} ± {error:.2f} {unit} to {best} |"


def group_table(found, sources):
    titles = "default", "unknown s", "yardstick", "best of the others", "behind by", "", "best package", "answers from"
    yield f"| | | {' | '.join(titles)} |"
    yield "|---|---|" + "---|" * len(titles)
    for label, scores in found.items():
        kind, outcome = KINDS[label], compared(KINDS[label], scores)
        unknown, yardstick = (f"{scores[name].mean():.2f}" if name in scores else "" for name in (UNKNOWN, YARDSTICK))
        cells = ["", "", ""]
        if outcome:
            best, behind, error, word = outcome
            cells = [f"{scores[best].mean():.2f} {best}", f"{behind:.2f} ± {error:.2f}", word]
        packages = {name: values.mean() for name, values in scores.items() if name.split(",")[0] in PEERS}
        package = max(packages, key=packages.get, default="")
        cells.append(f"{packages[package]:.2f} {package}" if package else "")
        parts = ", ".join(f"{part} {count}" for part, count in sources.get(label, {}).items())
        seen = "developed" if kind.developed else "unseen"
        cells = [label, seen, f"**{scores[DEFAULT].mean():.2f}**", unknown, yardstick, *cells, parts]
        yield f"| {' | '.join(cells)} |"


def method_table(found):
    """Every method on every kind of a group."""
    labels = list(found)
    yield f"| | {' | '.join(labels)} |"
    yield "|---|" + "---|" * len(labels)
    for name in dict.fromkeys(name for scores in found.values() for name in scores):
        cells = []
        for label in labels:
            scores, cell = found[label], ""
            if name in scores:
                _, error = difference(scores[name], scores[DEFAULT])
                cell = f"{scores[name].mean():.1f}" + ("" if name == DEFAULT else f" ± {error:.1f}")
            cells.append(cell)
        yield f"| {name} | {' | '.join(cells)} |"


# Small problems whose best support is known: name, matrix of m x n; nonzeros and decibels are tried in all pairs.
SMALL = {
    "Gaussian": lambda g, m, n: matrices.gaussian(g, m, n),
    "AR(1) 0.95": lambda g, m, n: matrices.autoregressive(g, m, n, 0.95),
    "column norms over four decades": lambda g, m, n: matrices.scaled_columns(g, m, n, 4),
    "condition 1e3": lambda g, m, n: matrices.conditioned(g, m, n, 1e3),
    "mean 1, deviation 0.5": lambda g, m, n: matrices.shifted(g, m, n, 2.0),
    "fine cosines": lambda g, m, n: matrices.fine_cosines(g, m, n),
}
SIZES = ((10, 16), (16, 30), (20, 40))
SMALL_SPARSITIES, SMALL_DECIBELS = (2, 3, 4), (5, 20)


def best_residual(Phi, y, s):
    """The smallest norm of the residual of any s columns, for each row of y."""
    supports = np.array(list(itertools.combinations(range(Phi.shape[1]), s)))
    bases = np.linalg.qr(np.moveaxis(Phi[:, supports], 1, 0))[0]
    explained = ((bases.transpose(0, 2, 1) @ y.T) ** 2).sum(axis=1)
    best = bases[np.argmax(explained, axis=0)]
    return np.linalg.norm(y - np.einsum("bms,bs->bm", best, np.einsum("bms,bm->bs", best, y)), axis=1)


def agreement(name, seed, problems):
    """How many of the small problems of a kind each method solves as well as the best support does."""
    reached, count = Counter(), 0
    for (m, n), s, decibels in itertools.product(SIZES, SMALL_SPARSITIES, SMALL_DECIBELS):
        kind = matrices.Kind(f"{name} {m}x{n}", "", False, s, decibels, lambda g, m=m, n=n: SMALL[name](g, m, n))
        case = kind.draw(seed, problems)
        best = best_residual(case.unit, case.y, s)
        count += problems
        asked = {"default": ("auto", {}), "default, polished": ("auto", {"polish": True})}
        asked['Automatic("approximation")'] = (sparsect.Automatic("approximation"), {})
        asked |= {other: (other, {}) for other in ("omp", "ormp")}
        asked["ormp, polished"] = ("ormp", {"polish": True})
        for label, (method, options) in asked.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = sparsect.recover(case.operator, case.y, s, method, refit=True, record=(), **options)
            reached[label] += _as_good(case, result.x * case.norms, best)
        if installed("abess"):
            reached["abess"] += _as_good(case, refit(sparsect.as_operator(case.unit), case.y, abess(case)), best)
    return {label: number / count for label, number in reached.items()}, count


def _as_good(case, z, best):
    size = np.linalg.norm(case.y, axis=1)
    return int(np.sum(np.linalg.norm(z @ case.unit.T - case.y, axis=1) <= best + 1e-7 * size))


def agreement_table(outcomes):
    labels = list(next(iter(outcomes.values()))[0])
    yield f"| | problems | {' | '.join(labels)} |"
    yield "|---|---|" + "---|" * len(labels)
    for name, (shares, count) in outcomes.items():
        yield f"| {name} | {count} | {' | '.join(f'{shares[label]:.1%}' for label in labels)} |"


def chosen(arguments):
    """Kinds that were asked for and whose data are there."""
    for label, kind in KINDS.items():
        if arguments.kinds and not any(part.lower() in label.lower() for part in arguments.kinds.split(",")):
            continue
        needed = {FIT: "images/val", PLACES: "data/meg/lead_field.npz"}.get(kind.measure)
        if needed is None or (arguments.data / needed).exists():
            yield label
        else:
            print(f"{label}: left out, since there is no {arguments.data / needed}")


def measure(pool, journal, labels, arguments):
    """Measure what the journal lacks, a kind at a time; whoever takes longest begins first."""
    asked, tasks = arguments.methods and {DEFAULT, *arguments.methods.split(",")}, {}
    folder = str(arguments.data)
    for label in sorted(labels, key=lambda label: -KINDS[label].sparsity):
        methods = [
            method
            for method in contenders(KINDS[label])
            if (not asked or method in asked) and f"{label}: {method}" not in journal.results
        ]
        if methods:
            tasks[pool.submit(measured, label, methods, arguments.seed, arguments.problems, folder)] = label
    for count, task in enumerate(as_completed(tasks), start=1):
        rows = task.result()
        for row in rows:
            journal.add(f"{row['kind']}: {row['method']}", row)
        seconds = sum(row["seconds"] for row in rows) * arguments.problems
        slowest = max(rows, key=lambda row: row["seconds"])["method"]
        print(f"{count}/{len(tasks)} {tasks[task]}: {seconds:.0f} s, most of them {slowest}", flush=True)
    return [journal.results[key] for key in journal.results if journal.results[key]["kind"] in labels]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="problems of each kind")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--kinds", help="parts of the names of kinds, separated by commas")
    parser.add_argument("--methods", help="names of methods, separated by commas; the default is always among them")
    parser.add_argument("--again", default="", help="names of methods that are measured anew")
    parser.add_argument("--data", type=Path, default=matrices.SHARED, help="folder with data/meg and images/val")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the tables and the scores")
    return parser.parse_args()


def main():
    arguments = parsed()
    again, labels = arguments.again.split(","), list(chosen(arguments))
    settings = {"problems": arguments.problems, "seed": arguments.seed}

    def kept(row):
        return None if row["method"] in again and row["kind"] in labels else row

    journal = Journal(arguments.out / "real-matrices.jsonl", settings, kept)
    missing = [name for name, package in PACKAGES.items() if not installed(package)]
    if missing:
        print(f"left out, since they are not installed: {', '.join(missing)}")
    packages = ("numpy", "scipy", "numba", *(package for package in PACKAGES.values() if installed(package)))
    path = arguments.out / "real-matrices.md"
    title = "The default beside every other method, on matrices of many kinds"
    with machine.Report(path, title, packages) as report, processes() as pool:
        with journal.writing():
            rows = measure(pool, journal, labels, arguments)
        small = {name: pool.submit(agreement, name, arguments.seed, arguments.problems) for name in SMALL}
        found = tables(rows)
        sources = {row["kind"]: row["source"] for row in rows if row["method"] == DEFAULT}
        report.section(
            "Summary",
            f"{arguments.problems} problems of each kind (seed {arguments.seed}), the same for all methods. The "
            "default, `recover(Phi, y, s)`, beside the best of all others on these very problems: every solver here as "
            "it comes, refitted (`refit=True`) and polished (`polish=True`), the default refitted and polished, and "
            "other packages as they come and refitted. Level: less than 0.05 dB ahead and at most 0.3 dB behind (of "
            "sources: 0.5 and 3 %). The best of some fifty is lucky, too: differences below their standard error mean "
            "nothing. Developed on: the default's rules were made with problems like these, of other seeds.",
            summary(found),
        )
        for group in dict.fromkeys(kind.group for kind in KINDS.values()):
            part = {label: scores for label, scores in found.items() if KINDS[label].group == group}
            if part:
                report.section(group, TEXTS.get(group, TEXT), group_table(part, sources))
                report.section(f"{group}: every method", DETAILS, method_table(part))
        report.section(
            "Agreement with the best support",
            f"Problems of sizes {', '.join(f'{m}x{n}' for m, n in SIZES)} with 2, 3 and 4 nonzeros at 5 and 20 dB: the "
            "share in which the residual is as small as that of the best of all supports, found by exhaustive search; "
            "everybody refitted. The default is a posterior mean and does not seek it. l0bnb and El0ps solve another "
            "problem (a penalty instead of s), OKRidge one with a ridge, and none of the three "
            "runs here as released: l0bnb 1.0.0 needs NumPy 1, El0ps 0.0.4 MPI, OKRidge 0.1.1 calls a method it lacks.",
            agreement_table({name: task.result() for name, task in small.items()}),
        )


TEXT = (
    "Mean SNR of x in dB, in units in which all columns of Phi have norm 1; exact answers count as 100 dB. Yardstick: "
    "posterior mean of a Gibbs sampler that is told prior and noise and starts at the truth, cut to s entries. Unknown "
    's: `recover(Phi, y, "auto")`. Behind by: mean of the differences and its standard error, negative where the '
    "default is ahead. The last column: which part of the default gave how many answers."
)
TEXTS = {
    matrices.MEG: "Share of sources, in percent, within 15 mm of a found one: one time point, 30 dB, normal strengths.",
    matrices.PATCHES: "Mean SNR of Phi x in dB: patches of 20x20 pixels of photographs that the bundled dictionary was "
    'not learned from, means removed. The default is `Automatic("approximation")`; the others here have the settings '
    "shipped for images.",
}
DETAILS = "Mean score and, after ±, the standard error of its difference to the default's."


if __name__ == "__main__":
    main()
