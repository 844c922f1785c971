"""Dictionary learning as in the paper: sparse coding by ADMM alternates with the method of optimal directions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..backend import files
from ..backend.array_checks import check_magnitude
from ..backend.arrays import Array, from_numpy, namespace, take_rows, to_numpy
from ..backend.checks import InputError, reject, whole_number
from ..backend.devices import described
from ..backend.locks import reserved
from ..backend.norms import norm, squared_norm
from ..backend.writing import check_writable
from ..solvers import ADMM
from ..solvers.base import Solver, check_solver
from .sources import Source
from .statistics import Statistics, gather_all
from .store import Dictionary, load_dictionary

if TYPE_CHECKING:
    from .cluster import Cluster

# Atoms used by fewer than this fraction of the signals are replaced.
RARE = 1e-5
# Entries of the provenance that do not affect the dictionary.
REMARKS = ("about", "computed")
# The default coder shrinks codes below this fraction of the size of the signals (root mean square norm) to zero.
THRESHOLD = 0.0044


def optimal_directions(statistics: Statistics, spare: Array) -> Array:
    """Update the dictionary by the method of optimal directions.

    Minimizes ``||Phi X - Y||`` over Phi and scales the columns to norm 1. Atoms used by almost no signal are replaced.

    Parameters
    ----------
    statistics : Statistics
        Statistics of all signals Y and their codes X.
    spare : array, shape (at least n, m)
        Signals, one per row, that replace rarely used atoms.

    Returns
    -------
    array, shape (m, n)
        The new Phi.
    """
    xp = namespace(statistics.codes_codes)
    n = statistics.codes_codes.shape[0]
    scale = float(xp.max(xp.abs(statistics.codes_codes))) or 1.0
    ridge = 1e-10 * scale * xp.eye(n, dtype=xp.float64, device=spare.device)
    atoms = xp.linalg.solve(statistics.codes_codes + ridge, statistics.codes_signals)
    length = norm(atoms)[:, None]
    used = (statistics.usage[:, None] >= max(1.0, RARE * statistics.count)) & (length > 0)
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
    """Learn a dictionary whose atoms code the signals of a source sparsely.

    Learning starts from ``n_atoms`` randomly drawn signals. Each round codes all signals with the current Phi, replaces
    Phi by the least-squares optimum for these codes (method of optimal directions [1]_), scales its columns to norm 1,
    and replaces rarely used atoms by signals.

    Parameters
    ----------
    source : Source
        Training signals.
    n_atoms : int
        Number of atoms, the columns of Phi.
    coder : Solver, optional
        The solver that codes. The default is ADMM with p-shrinkage, p = 1/2, and a penalty proportional to the size of
        the signals.
    sparsity : int, optional
        Maximum number of nonzeros per code. By default there is no limit, and the coder determines the number.
    code_iter : int, optional
        Number of iterations of the coder for each signal.
    rounds : int, optional
        Number of rounds.
    rng : int, optional
        Seed for the initial atoms and the replacements, a non-negative integer.
    validation : Source, optional
        Signals not used for training, on which the error is reported after each round.
    checkpoint : str or path-like, optional
        An ``.npz`` file to which the dictionary is written after every round. If the file exists, learning resumes from
        it, with the same outcome as without the interruption; a larger ``rounds`` continues a finished run.
    progress : callable, optional
        Called with a :class:`Progress` after each batch.
    about : str, optional
        Description of the signals, stored in the provenance.
    cluster : Cluster, optional
        A :class:`sparsect.dictionary.cluster.Cluster` that codes the batches; by default, this process does.

    Returns
    -------
    Dictionary
        The dictionary, with the errors of each round and its provenance.

    Raises
    ------
    InputError
        If the checkpoint was learned with other settings, or all signals are constant.

    References
    ----------
    .. [1] K. Engan, S. O. Aase and J. H. Husøy, "Method of optimal directions for frame design", IEEE International
       Conference on Acoustics, Speech, and Signal Processing, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsect.dictionary import ArraySource, learn
    >>> signals = np.random.default_rng(0).standard_normal((500, 16))
    >>> dictionary = learn(ArraySource(signals), n_atoms=20, rounds=3)
    >>> dictionary
    Dictionary(16x20, 3 rounds)
    >>> dictionary.rounds[-1]["error"] < dictionary.rounds[0]["error"]
    True
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
    with reserved(checkpoint):
        if checkpoint is not None:
            dictionary = _resumed(checkpoint, dictionary)
        while len(dictionary.rounds) < rounds:
            number, Phi = len(dictionary.rounds) + 1, dictionary.Phi

            def report(batch: int, number: int = number, before: Dictionary = dictionary) -> None:
                if progress is not None:
                    progress(Progress(number, rounds, batch, source.batches, before))

            gathered = gather_all if cluster is None else cluster.gather
            total = gathered(dictionary, source, coder, limit, code_iter, report)
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
    """State of learning, as reported to the ``progress`` argument of :func:`learn`.

    Attributes
    ----------
    round : int
        Number of the current round, from 1.
    rounds : int
        Number of all rounds.
    batch : int
        Number of batches done in this round.
    batches : int
        Number of batches in a round.
    dictionary : Dictionary
        The dictionary after the last complete round.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsect.dictionary import ArraySource, learn
    >>> signals = np.random.default_rng(0).standard_normal((500, 16))
    >>> reports = []
    >>> dictionary = learn(ArraySource(signals), n_atoms=20, rounds=3, progress=reports.append)
    >>> last = reports[-1]
    >>> last.round, last.rounds, last.batch, last.batches
    (3, 3, 1, 1)
    """

    round: int
    rounds: int
    batch: int
    batches: int
    dictionary: Dictionary


def _default_coder(source: Source) -> ADMM:
    """ADMM with the weights that performed best on patches of photographs, scaled to the signals."""
    signals = source.batch(0)
    check_magnitude("signals", signals)
    size = float(namespace(signals).sum(squared_norm(signals)) / signals.shape[0]) ** 0.5
    mu = 2.0
    return ADMM(mu=mu, lam=float(f"{mu * THRESHOLD * size:.3g}"))


def _resumed(checkpoint: str, start: Dictionary) -> Dictionary:
    """Return the saved dictionary on the device of ``start``, or ``start`` if none has been saved yet."""
    if not Path(checkpoint).exists():
        check_writable(checkpoint)
        return start
    saved = load_dictionary(checkpoint)
    asked = json.loads(json.dumps(start.provenance))
    other = [name for name in asked if name not in REMARKS and saved.provenance.get(name) != asked[name]]
    if saved.Phi.shape != start.Phi.shape:
        other.insert(0, "n_atoms or patch")
    if other:
        raise InputError(
            f"{checkpoint}: was learned with other values of {', '.join(other)}; "
            "use the same values to continue, or another file to start over"
        )
    return Dictionary(from_numpy(to_numpy(saved.Phi), start.Phi), saved.rounds, start.provenance)


def _signals(source: Source, count: int, seed: int, number: int) -> Array:
    """Draw ``count`` distinct, non-constant signals for a round; random combinations are added if there are too few."""
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
        raise reject("source", "signals that are all constant", "hold signals that vary")
    if missing:
        weights = from_numpy(generate.standard_normal((missing, signals.shape[0])), signals)
        signals = xp.concat([signals, xp.astype(weights, signals.dtype) @ signals])
    return signals
