"""Dictionary learning as in the paper: sparse-code by ADMM, update by the method of optimal directions, repeat."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..backend import files
from ..backend.arrays import (
    Array,
    check_magnitude,
    from_numpy,
    namespace,
    norm,
    on_host,
    squared_norm,
    take_rows,
    to_numpy,
)
from ..backend.checks import InputError, reject, whole_number
from ..backend.devices import described, memory_errors, rows_at_a_time, summing
from ..operators import Operator
from ..problems import Problem
from ..run.loop import solve
from ..solvers import ADMM
from ..solvers.base import Solver, check_solver
from .sources import Batches, Source
from .store import Dictionary, load_dictionary

if TYPE_CHECKING:
    from .cluster import Cluster

# Atoms used by fewer than this fraction of the signals are replaced.
RARELY = 1e-5
# What in a provenance does not change the dictionary.
REMARKS = ("about", "computed")
# Codes below this fraction of the size of a signal (root mean square norm) are shrunk away by the default coder.
THRESHOLD = 0.0044


# The parts of statistics that are arrays.
ARRAYS = ("codes_codes", "codes_signals", "usage")


@dataclass(frozen=True)
class Statistics:
    """All that the update needs of the codes X of the signals Y; sums over signals, so they add up batch by batch.

    Attributes
    ----------
    codes_codes : X^T X, (n, n)
    codes_signals : X^T Y, (n, m)
    usage : (n,), signals that use each atom
    error, energy : sums of ||Phi x - y||^2 and ||y||^2
    count : signals
    """

    codes_codes: Array
    codes_signals: Array
    usage: Array
    error: float
    energy: float
    count: int

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def moved(self, move: Callable[[Array], Array]) -> Statistics:
        """The same with its arrays somewhere else."""
        return replace(self, **{name: move(getattr(self, name)) for name in ARRAYS})

    def __sizeof__(self) -> int:
        """Bytes, by which Dask decides where sums are added up."""
        return object.__sizeof__(self) + sum(int(getattr(self, name).nbytes) for name in ARRAYS)

    @property
    def relative_error(self) -> float:
        """||Phi X - Y|| / ||Y|| over all signals."""
        return (self.error / self.energy) ** 0.5 if self.energy else 0.0

    @property
    def mean_nonzeros(self) -> float:
        """Atoms used for a signal, on average."""
        return float(namespace(self.usage).sum(self.usage)) / self.count


def gather(operator: Operator, signals: Array, coder: Solver, sparsity: int, code_iter: int) -> Statistics:
    """Code one batch and sum up what the update needs of it; sums over batches are in double precision."""
    block = rows_at_a_time(signals, operator.shape, signals.shape[0])
    parts = [
        _gather_block(operator, signals[start : start + block, :], coder, sparsity, code_iter)
        for start in range(0, signals.shape[0], block)
    ]
    return sum(parts[1:], start=parts[0])


def _gather_block(operator: Operator, signals: Array, coder: Solver, sparsity: int, code_iter: int) -> Statistics:
    xp = namespace(signals)
    with summing(signals):
        problem = Problem(operator, signals, sparsity)
        result = solve(problem, coder, max_iter=code_iter, tol=0.0, record=(), check_fit=False)
        codes_codes = xp.astype(result.x.T @ result.x, xp.float64)
        codes_signals = xp.astype(result.x.T @ signals, xp.float64)
    # Rounding must not give atoms a mean that the signals do not have.
    sums = xp.astype(result.x.T @ xp.sum(signals, axis=1), xp.float64)
    codes_signals += ((sums - xp.sum(codes_signals, axis=1)) / signals.shape[1])[:, None]
    return Statistics(
        codes_codes=codes_codes,
        codes_signals=codes_signals,
        usage=xp.astype(xp.count_nonzero(result.support, axis=0), xp.float64),
        error=float(xp.sum(xp.astype(result.residual_norm, xp.float64) ** 2)),
        energy=float(xp.sum(squared_norm(signals))),
        count=int(signals.shape[0]),
    )


def optimal_directions(statistics: Statistics, spare: Array) -> Array:
    """argmin ||Phi X - Y|| over Phi, columns scaled to norm 1; atoms hardly used are replaced by rows of ``spare``."""
    xp = namespace(statistics.codes_codes)
    n = statistics.codes_codes.shape[0]
    scale = float(xp.max(xp.abs(statistics.codes_codes))) or 1.0
    ridge = 1e-10 * scale * xp.eye(n, dtype=xp.float64, device=spare.device)
    atoms = xp.linalg.solve(statistics.codes_codes + ridge, statistics.codes_signals)
    length = norm(atoms)[:, None]
    used = (statistics.usage[:, None] >= max(1.0, RARELY * statistics.count)) & (length > 0)
    fresh = xp.astype(spare[:n, :], xp.float64)
    fresh = fresh / norm(fresh)[:, None]
    return xp.where(used, atoms / xp.where(length > 0, length, xp.ones_like(length)), fresh).T


def learn(
    source: Source,
    n_atoms: int,
    *,
    coder: Solver | None = None,
    sparsity: int | None = None,
    code_iter: int = 20,
    rounds: int = 45,
    rng: int = 0,
    validation: Source | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    about: str | None = None,
    cluster: Cluster | None = None,
) -> Dictionary:
    """Learn a dictionary whose atoms code the signals of ``source`` sparsely.

    Each round codes all signals with the current Phi, then replaces Phi by the least-squares optimum for those codes
    (method of optimal directions, Engan et al. 1999), scales its columns to norm 1 and replaces atoms that are hardly
    used by signals. Starts from ``n_atoms`` signals drawn at random.

    Parameters
    ----------
    source, validation : training signals, and others on which the error is reported after each round
    n_atoms : columns of Phi
    coder : any solver; default ADMM with p-shrinkage, p = 1/2, its penalty in proportion to the size of the signals
    sparsity : nonzeros allowed in a code; default no limit, the coder decides
    code_iter : iterations of the coder for each signal
    rounds : how often to repeat
    rng : seed for the start and for replacements
    checkpoint : an ``.npz`` file that the dictionary is written to after every round. If it exists, learning goes on
        from it and ends as if it had never stopped; more ``rounds`` go further.
    progress : called after each batch
    about : words on the signals, kept in the provenance
    cluster : where batches are coded, a :class:`sparsect.dictionary.cluster.Cluster`; default here
    """
    n_atoms, rounds = whole_number("n_atoms", n_atoms, 1), whole_number("rounds", rounds, 1)
    seed = whole_number("rng", rng, 0)
    limit = n_atoms if sparsity is None else whole_number("sparsity", sparsity, 1, n_atoms)
    coder = _default_coder(source) if coder is None else check_solver("coder", coder)
    provenance = source.provenance | {
        "coder": repr(coder),
        "sparsity": sparsity,
        "code_iter": whole_number("code_iter", code_iter, 1),
        "seed": seed,
        "validation": None if validation is None else validation.provenance,
    }
    first = _signals(source, n_atoms, seed, 0)
    provenance |= {"about": about, "computed": described(first)}
    dictionary = Dictionary((first / norm(first)[:, None]).T, [], provenance)
    if checkpoint is not None:
        checkpoint = files.path_name("checkpoint", checkpoint)
    with files.reserved(checkpoint):
        if checkpoint is not None:
            dictionary = _resumed(checkpoint, dictionary)
        while len(dictionary.rounds) < rounds:
            number, Phi = len(dictionary.rounds) + 1, dictionary.Phi

            def seen(batch: int, number: int = number, before: Dictionary = dictionary) -> None:
                if progress is not None:
                    progress(Progress(number, rounds, batch, source.batches, before))

            gathered = gather_all if cluster is None else cluster.gather
            total = gathered(dictionary, source, coder, limit, code_iter, seen)
            numbers = {"error": total.relative_error, "nonzeros": total.mean_nonzeros}
            if validation is not None:
                held_out = gathered(dictionary, validation, coder, limit, code_iter, lambda batches: None)
                numbers |= {"validation_error": held_out.relative_error, "validation_nonzeros": held_out.mean_nonzeros}
            updated = optimal_directions(total, _signals(source, n_atoms, seed, number))
            dictionary = Dictionary(
                namespace(updated).astype(updated, Phi.dtype), [*dictionary.rounds, numbers], provenance
            )
            if checkpoint is not None:
                dictionary.save(checkpoint)
            if progress is not None:
                progress(Progress(number, rounds, source.batches, source.batches, dictionary))
    return dictionary


@dataclass(frozen=True)
class Progress:
    """Where learning stands: the round and the batch within it, and the dictionary of the last whole round."""

    round: int
    rounds: int
    batch: int
    batches: int
    dictionary: Dictionary


def gather_all(
    dictionary: Dictionary, source: Batches, coder: Solver, limit: int, code_iter: int, seen: Callable[[int], None]
) -> Statistics:
    """Statistics of all batches, on a CPU one on each core, on a GPU one after the other; ``seen`` is told how many."""
    operator = dictionary.operator
    # Factored before several ask for it at once.
    operator.row_space  # noqa: B018
    if on_host(dictionary.Phi):
        from ..backend.parallel import side_by_side

        parts = side_by_side(
            lambda index: gather(operator, _drawn(source, index), coder, limit, code_iter), source.batches
        )
    else:
        parts = (gather(operator, signals, coder, limit, code_iter) for signals in _drawn_ahead(source))
    total = next(parts)
    seen(1)
    for done, part in enumerate(parts, start=2):
        total += part
        seen(done)
    return total


def _drawn_ahead(source: Batches) -> Iterator[Array]:
    """All batches of a source, each drawn while the one before it is worked on."""
    with ThreadPoolExecutor(1) as thread:
        following = thread.submit(_drawn, source, 0)
        for index in range(1, source.batches + 1):
            signals = following.result()
            if index < source.batches:
                following = thread.submit(_drawn, source, index)
            yield signals


def _drawn(source: Batches, index: int) -> Array:
    with memory_errors("batch_size", "larger batches", "a smaller one"):
        return source.batch(index)


def _default_coder(source: Source) -> ADMM:
    """ADMM with weights that served best on patches of photographs, made to follow the scale of the signals."""
    signals = source.batch(0)
    check_magnitude("signals", signals)
    size = float(namespace(signals).sum(squared_norm(signals)) / signals.shape[0]) ** 0.5
    mu = 2.0
    return ADMM(mu=mu, lam=float(f"{mu * THRESHOLD * size:.3g}"))


def _resumed(checkpoint: str, start: Dictionary) -> Dictionary:
    """The dictionary that was saved, on the device of ``start``; ``start`` itself where none was saved yet."""
    if not Path(checkpoint).exists():
        files.check_writable(checkpoint)
        return start
    saved = load_dictionary(checkpoint)
    asked = json.loads(json.dumps(start.provenance))
    other = [name for name in asked if name not in REMARKS and saved.provenance.get(name) != asked[name]]
    if saved.Phi.shape != start.Phi.shape:
        other.insert(0, "n_atoms or patch")
    if other:
        raise InputError(
            f"{checkpoint}: was learned with other values of {', '.join(other)}; "
            "give the same ones to go on, or another file to start anew"
        )
    return Dictionary(from_numpy(saved.Phi, start.Phi), saved.rounds, start.provenance)


def _signals(source: Source, count: int, seed: int, number: int) -> Array:
    """``count`` different signals that are not constant, drawn for the given round; mixtures of them if too few."""
    generate = np.random.default_rng([seed, number])
    parts, missing = [], count
    for index in generate.permutation(source.batches):
        rows = source.batch(int(index))
        xp, lengths = namespace(rows), to_numpy(norm(rows))
        usable = generate.permutation(np.flatnonzero(lengths > 0.1 * lengths.mean()))[:missing]
        parts.append(take_rows(rows, usable))
        missing -= usable.size
        if missing == 0:
            break
    signals = xp.concat(parts)
    if signals.shape[0] == 0:
        raise reject("source", "signals that are all constant", "signals that vary")
    if missing:
        weights = from_numpy(generate.standard_normal((missing, signals.shape[0])), signals)
        signals = xp.concat([signals, xp.astype(weights, signals.dtype) @ signals])
    return signals
