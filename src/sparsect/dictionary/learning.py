"""Dictionary learning: rounds of coding and updating, saved after each round."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import files
from ..backend.array_checks import check_magnitude
from ..backend.arrays import Array, from_numpy, namespace, on_host, to_numpy
from ..backend.checks import InputError, choice, reject, shown, truth_value, whole_number
from ..backend.devices import described
from ..backend.locks import reserved
from ..backend.norms import squared_norm
from ..backend.writing import check_writable
from ..solvers import ADMM
from ..solvers.base import Solver, check_solver
from .online import Online
from .procedures import SPARE, Limited, Penalized, Procedure, Stage
from .samples import Sample, completed, draw_rows
from .sources import ArraySource, DaskSource, Source, is_dask
from .statistics import gather_all
from .store import Dictionary, load_dictionary

if TYPE_CHECKING:
    from .cluster import Cluster

# Entries of the provenance that do not affect the dictionary.
REMARKS = ("about", "computed", "rounds")
# The paper's coder shrinks codes below this fraction of the size of the signals (root mean square norm) to zero.
THRESHOLD = 0.0044
# Iterations of the paper's coder.
ITERATIONS = 20
# Rounds, and rounds where few signals are coded again and again.
ROUNDS, FEW_ROUNDS = 45, 20


def learn(
    source: Source | Array,
    n_atoms: int,
    *,
    sparsity: int | None = None,
    objective: str | None = None,
    nonnegative_codes: bool = False,
    nonnegative_atoms: bool = False,
    max_coherence: float = 0.95,
    coder: Solver | None = None,
    code_iter: int | None = None,
    rounds: int | None = None,
    passes: int | None = None,
    patience: int = 10,
    rng: int = 0,
    validation: Source | Array | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    about: str | None = None,
    cluster: Cluster | None = None,
) -> Dictionary:
    """Learn a dictionary whose atoms code the signals of a source sparsely.

    There are two objectives. With ``'l0'``, codes have at most ``sparsity`` nonzeros while learning, as they do when
    the dictionary is used. Most rounds learn from mini-batches of a sample of the signals: each step codes some
    signals, adds their statistics to those of earlier ones, which fade, and updates one atom after the other [1]_. At
    first little is remembered, so that atoms move freely, and codes have half the nonzeros; later, more. The last
    rounds are passes over all signals with the method of optimal directions [2]_. Atoms that few signals use, or nearly
    the same as another one, are replaced by signals. The result is the dictionary of the round with the smallest error
    on signals that are held out. If there are at most 1,000 signals, or so few that fewer than 1.5 of them use an atom
    for each of its entries, atoms would fit their noise; mini-batches are then coded with an l1 penalty, which shrinks
    codes and leaves 1.5 times ``sparsity`` nonzeros on average (not on a GPU, nor if codes are nonnegative or ``coder``
    is given).

    With ``'lp'``, learning is that of the paper: each round codes all signals by ADMM with a penalty, followed by the
    method of optimal directions, and the last dictionary is the result.

    Parameters
    ----------
    source : Source, or array of shape (signals, m)
        Training signals; an array may be one of Dask. The result does not depend on how they are divided into batches,
        except for rounding.
    n_atoms : int
        Number of atoms, the columns of Phi.
    sparsity : int, optional
        Maximum number of nonzeros per code. It may be None for 'lp' only: the coder then determines the number.
    objective : {'l0', 'lp'}, optional
        What is minimized. The default is 'l0' if ``sparsity`` is given, else 'lp'.
    nonnegative_codes, nonnegative_atoms : bool, optional
        Whether the codes, and the entries of the atoms, are nonnegative; for 'l0' only.
    max_coherence : float, optional
        The largest absolute inner product of two atoms, for 'l0' only. With 0.95 or more, of two atoms that exceed it
        the one used less is replaced by a signal, which may come close to other atoms. Below 0.95, pairs that exceed it
        are turned apart after every update [3]_, and the result keeps the limit, unless it is near or below
        ``sqrt((n_atoms - m) / (m (n_atoms - 1)))``, the least that is possible [4]_, or atoms are nonnegative: they
        need more room. Low limits raise the error.
    coder : Solver, optional
        The solver that codes. For 'l0', the default is order-recursive matching pursuit, and for nonnegative codes the
        annealed Difference Map. For 'lp', it is ADMM with p-shrinkage, p = 1/2, and a penalty proportional to the size
        of the signals.
    code_iter : int, optional
        Maximum number of iterations of the coder for each signal. The default is 20 for 'lp', and for 'l0' 10, or
        ``sparsity`` if that is larger.
    rounds : int, optional
        Number of rounds. A round of mini-batches codes 5,000 signals at first and at most 20,000 later, on a GPU
        80,000. The default is 45, and 20 where codes are shrunk.
    passes : int, optional
        For 'l0', how many of the rounds, the last ones, are passes over all signals. The default is one in eight, at
        least one, and one where codes are shrunk. With very many signals, a pass takes as long as hundreds of rounds of
        mini-batches.
    patience : int, optional
        Number of rounds of mini-batches without a smaller error after which the passes begin.
    rng : int, optional
        Seed for the initial atoms, the sample and the replacements, a non-negative integer.
    validation : Source, or array of shape (signals, m), optional
        Signals not used for training, on which the error is reported after each round. For 'l0', 500 of them are drawn;
        if there is no such source, one signal in 20, at most 500, is held out, unless that leaves fewer than five
        signals per atom. The error is then that of the training signals.
    checkpoint : str or path-like, optional
        An ``.npz`` file to which the dictionary is written after every round. If the file exists, learning resumes from
        it, with the same outcome as without the interruption. A larger ``rounds`` continues a finished run: for 'l0',
        with more passes over all signals, if there are to be any; a run that is not finished needs the same ``rounds``.
    progress : callable, optional
        Called with a :class:`Progress` after each batch.
    about : str, optional
        Description of the signals, stored in the provenance.
    cluster : Cluster, optional
        A :class:`sparsect.dictionary.cluster.Cluster` that codes the batches of passes over all signals; by default,
        this process does. Mini-batches are always coded in this process, where the signals are.

    Returns
    -------
    Dictionary
        The dictionary, with the errors of each round and its provenance. For 'l0', ``remembered`` is the number of
        signals in the statistics of a round of mini-batches, and 0 for a pass over all signals.

    Raises
    ------
    InputError
        If the checkpoint was learned with other settings, or all signals are zero.

    References
    ----------
    .. [1] J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online learning for matrix factorization and sparse coding",
       Journal of Machine Learning Research 11, 2010.
    .. [2] K. Engan, S. O. Aase and J. H. Husøy, "Method of optimal directions for frame design", IEEE International
       Conference on Acoustics, Speech, and Signal Processing, 1999.
    .. [3] B. Mailhé, D. Barchiesi and M. D. Plumbley, "INK-SVD: learning incoherent dictionaries for sparse
       representations", IEEE International Conference on Acoustics, Speech, and Signal Processing, 2012.
    .. [4] L. R. Welch, "Lower bounds on the maximum cross correlation of signals", IEEE Transactions on Information
       Theory 20, 1974.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsect.dictionary import ArraySource, learn
    >>> signals = np.random.default_rng(0).standard_normal((500, 16))
    >>> dictionary = learn(ArraySource(signals), n_atoms=20, sparsity=3, rounds=5)
    >>> dictionary
    Dictionary(16x20, 5 rounds)
    >>> dictionary.rounds[-1]["nonzeros"]
    3.0
    """
    source, validation = _as_source(source), None if validation is None else _as_source(validation)
    n_atoms = whole_number("n_atoms", n_atoms, 1)
    if rounds is not None:
        rounds = whole_number("rounds", rounds, 1)
    seed, patience = whole_number("rng", rng, 0), whole_number("patience", patience, 1)
    if objective is None:
        objective = "lp" if sparsity is None else "l0"
    limited = choice("objective", objective, ("l0", "lp")) == "l0"
    online = _online(n_atoms, sparsity, limited, nonnegative_codes, nonnegative_atoms, max_coherence)
    if code_iter is not None:
        code_iter = whole_number("code_iter", code_iter, 1)
    coder = None if coder is None else check_solver("coder", coder)
    if progress is not None and not callable(progress):
        raise reject("progress", shown(progress), "a function of a Progress, or None")
    if cluster is not None and not hasattr(cluster, "gather"):
        raise reject("cluster", shown(cluster), "a sparsect.dictionary.cluster.Cluster, or None")
    gather = gather_all if cluster is None else cluster.gather
    procedure: Procedure
    if limited:
        sample = Sample.drawn(source, validation, n_atoms, seed)
        check_magnitude("signals", completed(sample.rows))
        whole_number("sparsity", sparsity, 1, min(n_atoms, sample.rows.shape[1]))
        online = replace(online, coder=coder, code_iter=code_iter)
        overfits = on_host(sample.rows) and online.overfits(source.size, n_atoms, sample.rows.shape[1])
        rounds = rounds or (FEW_ROUNDS if overfits else ROUNDS)
        if passes is not None:
            passes = whole_number("passes", passes, 1, rounds)
        procedure = Limited(source, sample, n_atoms, online, overfits, rounds, passes, patience, seed, gather)
        settings: dict[str, Any] = {"passes": passes, "objective": "l0", "sparsity": sparsity, "rounds": rounds}
        settings |= {"patience": patience, "online": repr(online)}
    else:
        pool = completed(draw_rows(source, SPARE * n_atoms, np.random.default_rng([seed, 0])))
        check_magnitude("signals", pool)
        coding = (coder or _penalized_coder(pool), n_atoms if sparsity is None else sparsity, code_iter or ITERATIONS)
        rounds = rounds or ROUNDS
        procedure = Penalized(source, validation, pool, n_atoms, coding, rounds, seed, gather)
        settings = {"coder": repr(coding[0]), "sparsity": sparsity, "code_iter": coding[2]}
    start = procedure.start()
    provenance = source.provenance | settings | {"seed": seed}
    provenance |= {"validation": None if validation is None else validation.provenance}
    provenance |= {"about": about, "computed": described(start.Phi)}
    if checkpoint is not None:
        checkpoint = files.path_name("checkpoint", checkpoint)
    with reserved(checkpoint):
        stage, dictionary = start, Dictionary(start.Phi, [], provenance)
        if checkpoint is not None:
            stage, dictionary = _resumed(checkpoint, dictionary, procedure)
        coded = 0
        while len(dictionary.rounds) < rounds and not procedure.finished(dictionary.rounds):
            batches, signals = procedure.batches(dictionary.rounds), procedure.signals(dictionary.rounds)
            state = Progress(len(dictionary.rounds) + 1, rounds, 0, batches, coded, 0, dictionary)
            left = procedure.left(dictionary.rounds)

            def report(batch: int, before: Progress = state, signals: int = signals, left: int = left) -> None:
                if progress is not None:
                    done = signals * batch // before.batches
                    progress(replace(before, batch=batch, coded=before.coded + done, left=left - done))

            stage, numbers = procedure.round(stage, dictionary.Phi, dictionary.rounds, report)
            coded += signals
            done = [*dictionary.rounds, numbers]
            kept = stage if procedure.best(done) == len(done) - 1 else dictionary
            dictionary = Dictionary(kept.Phi, done, provenance, kept.usage)
            if checkpoint is not None:
                files.write_npz(checkpoint, dictionary.arrays() | stage.arrays(), compress=False)
            if progress is not None:
                left = 0 if procedure.finished(done) else procedure.left(done)
                progress(Progress(state.round, rounds, batches, batches, coded, left, dictionary))
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
    coded : int
        Number of signals coded so far, not counting those before an interruption.
    left : int
        Number of signals that are still to be coded, if learning does not end before the last round.
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
    >>> last.round, last.rounds, last.batch, last.batches, last.coded, last.left
    (3, 3, 1, 1, 1500, 0)
    """

    round: int
    rounds: int
    batch: int
    batches: int
    coded: int
    left: int
    dictionary: Dictionary


def _as_source(signals: Any) -> Any:
    """Return a source of the rows of an array; a source is returned unchanged."""
    if hasattr(signals, "batch"):
        return signals
    return DaskSource(signals) if is_dask(signals) else ArraySource(signals)


def _online(
    n_atoms: int,
    sparsity: int | None,
    limited: bool,
    nonnegative_codes: bool,
    nonnegative_atoms: bool,
    max_coherence: float,
) -> Online:
    """Check the settings that belong to one objective."""
    if sparsity is not None:
        sparsity = whole_number("sparsity", sparsity, 1, n_atoms)
    elif limited:
        raise reject("sparsity", "None with objective='l0'", f"a whole number from 1 to {n_atoms}")
    signs = {"nonnegative_codes": nonnegative_codes, "nonnegative_atoms": nonnegative_atoms}
    for name, value in signs.items():
        if truth_value(name, value) and not limited:
            raise reject(name, "True with objective='lp'", "used with objective='l0' and a value of `sparsity`")
    return Online(sparsity or 1, None, None, nonnegative_codes, nonnegative_atoms, max_coherence)


def _penalized_coder(signals: Array) -> ADMM:
    """ADMM with the weights that performed best on patches of photographs, scaled to the signals."""
    size = float(namespace(signals).sum(squared_norm(signals)) / signals.shape[0]) ** 0.5
    mu = 2.0
    return ADMM(mu=mu, lam=float(f"{mu * THRESHOLD * size:.3g}"))


def _resumed(checkpoint: str, start: Dictionary, procedure: Procedure) -> tuple[Stage, Dictionary]:
    """Return the saved stage and dictionary on the device of ``start``, or ``start`` if none has been saved yet."""
    if not Path(checkpoint).exists():
        check_writable(checkpoint)
        return Stage(start.Phi), start
    saved = load_dictionary(checkpoint)
    asked = json.loads(json.dumps(start.provenance))
    other = [name for name in asked if name not in REMARKS and saved.provenance.get(name) != asked[name]]
    if saved.Phi.shape != start.Phi.shape:
        other.insert(0, "n_atoms or patch")
    if other:
        raise _other_values(checkpoint, other)
    dictionary = Dictionary(from_numpy(to_numpy(saved.Phi), start.Phi), saved.rounds, start.provenance, saved.usage)
    try:
        stage = procedure.restored(files.read_npz(checkpoint), dictionary)
    except KeyError as error:
        raise InputError(f"{checkpoint}: damaged, {error.args[0]} is missing") from None
    except ValueError as error:
        raise InputError(f"{checkpoint}: damaged ({error})") from None
    if not procedure.continues(saved.rounds, saved.provenance.get("rounds")):
        raise _other_values(checkpoint, ["rounds"])
    return stage, dictionary


def _other_values(checkpoint: str, names: list[str]) -> InputError:
    return InputError(
        f"{checkpoint}: was learned with other values of {', '.join(names)}; "
        "use the same values to continue, or another file to start over"
    )
