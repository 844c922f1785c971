"""Dictionary learning: rounds of coding and updating, saved after each round."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..backend import files
from ..backend.array_checks import check_magnitude
from ..backend.arrays import Array, from_numpy, is_numpy, namespace, to_numpy
from ..backend.checks import InputError, choice, real_number, reject, truth_value, whole_number
from ..backend.devices import described
from ..backend.locks import reserved
from ..backend.norms import squared_norm
from ..backend.writing import check_writable
from ..solvers import ADMM
from ..solvers.base import Solver, check_solver
from .online import Online
from .procedures import Limited, Penalized, Procedure, Stage
from .samples import Sample, draw_rows
from .sources import Source
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
# Signals drawn for each atom from which the paper's learning takes atoms.
SPARE = 4


def learn(
    source: Source,
    n_atoms: int,
    *,
    sparsity: int | None = None,
    objective: str | None = None,
    nonnegative_codes: bool = False,
    nonnegative_atoms: bool = False,
    max_coherence: float = 0.95,
    coder: Solver | None = None,
    code_iter: int | None = None,
    rounds: int = 45,
    patience: int = 10,
    rng: int = 0,
    validation: Source | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Callable[[Progress], None] | None = None,
    about: str | None = None,
    cluster: Cluster | None = None,
) -> Dictionary:
    """Learn a dictionary whose atoms code the signals of a source sparsely.

    There are two objectives. With ``'l0'``, codes have at most ``sparsity`` nonzeros while learning, as they do when
    the dictionary is used. Most rounds learn from mini-batches of a sample of the signals: each step codes some
    signals, adds their statistics to those of earlier ones, which fade, and updates one atom after the other [1]_. At
    first little is remembered, so that atoms move freely, and codes have half the nonzeros; later, more. One round in
    eight, at the end, is a pass over all signals with the method of optimal directions [2]_. Atoms that few signals
    use, or nearly the same as another one, are replaced by signals. The result is the dictionary of the round with the
    smallest error on signals that are held out.

    With ``'lp'``, learning is that of the paper: each round codes all signals by ADMM with a penalty, followed by the
    method of optimal directions, and the last dictionary is the result.

    Parameters
    ----------
    source : Source
        Training signals. The result does not depend on how they are divided into batches, except for rounding.
    n_atoms : int
        Number of atoms, the columns of Phi.
    sparsity : int, optional
        Maximum number of nonzeros per code. It may be None for 'lp' only: the coder then determines the number.
    objective : {'l0', 'lp'}, optional
        What is minimized. The default is 'l0' if ``sparsity`` is given, else 'lp'.
    nonnegative_codes, nonnegative_atoms : bool, optional
        Whether the codes, and the entries of the atoms, are nonnegative; for 'l0' only.
    max_coherence : float, optional
        The largest absolute inner product of two atoms, for 'l0' only. If it is exceeded, the atom used less is
        replaced; the result may exceed it where the last update has moved atoms.
    coder : Solver, optional
        The solver that codes. For 'l0', the default is order-recursive matching pursuit; for nonnegative codes, and for
        passes on a GPU, the annealed Difference Map. For 'lp', it is ADMM with p-shrinkage, p = 1/2, and a penalty
        proportional to the size of the signals.
    code_iter : int, optional
        Maximum number of iterations of the coder for each signal. The default is 20 for 'lp', and for 'l0' 10 on a CPU
        and 50 on a GPU, or ``sparsity`` if that is larger.
    rounds : int, optional
        Number of rounds. A round of mini-batches codes about 5,000 signals.
    patience : int, optional
        Number of rounds of mini-batches without a smaller error after which the passes begin.
    rng : int, optional
        Seed for the initial atoms, the sample and the replacements, a non-negative integer.
    validation : Source, optional
        Signals not used for training, on which the error is reported after each round. For 'l0', 500 of them are drawn;
        if there is no such source, one signal in 20, at most 500, is held out, unless that leaves fewer than five
        signals per atom. The error is then that of the training signals.
    checkpoint : str or path-like, optional
        An ``.npz`` file to which the dictionary is written after every round. If the file exists, learning resumes from
        it, with the same outcome as without the interruption. A larger ``rounds`` continues a finished run: for 'l0',
        with more passes over all signals.
    progress : callable, optional
        Called with a :class:`Progress` after each batch.
    about : str, optional
        Description of the signals, stored in the provenance.
    cluster : Cluster, optional
        A :class:`sparsect.dictionary.cluster.Cluster` that codes the batches of passes over all signals; by default,
        this process does. Mini-batches are always coded in this process.

    Returns
    -------
    Dictionary
        The dictionary, with the errors of each round and its provenance. For 'l0', ``remembered`` is the number of
        signals in the statistics of a round of mini-batches, and 0 for a pass over all signals.

    Raises
    ------
    InputError
        If the checkpoint was learned with other settings, or all signals are constant.

    References
    ----------
    .. [1] J. Mairal, F. Bach, J. Ponce and G. Sapiro, "Online learning for matrix factorization and sparse coding",
       Journal of Machine Learning Research 11, 2010.
    .. [2] K. Engan, S. O. Aase and J. H. Husøy, "Method of optimal directions for frame design", IEEE International
       Conference on Acoustics, Speech, and Signal Processing, 1999.

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
    n_atoms, rounds = whole_number("n_atoms", n_atoms, 1), whole_number("rounds", rounds, 1)
    seed, patience = whole_number("rng", rng, 0), whole_number("patience", patience, 1)
    if objective is None:
        objective = "lp" if sparsity is None else "l0"
    limited = choice("objective", objective, ("l0", "lp")) == "l0"
    online = _online(n_atoms, sparsity, limited, nonnegative_codes, nonnegative_atoms, max_coherence)
    if code_iter is not None:
        code_iter = whole_number("code_iter", code_iter, 1)
    coder = None if coder is None else check_solver("coder", coder)
    gather = gather_all if cluster is None else cluster.gather
    procedure: Procedure
    if limited:
        sample = Sample.drawn(source, validation, n_atoms, seed)
        check_magnitude("signals", sample.rows[np.isfinite(sample.rows)])
        whole_number("sparsity", sparsity, 1, min(n_atoms, sample.rows.shape[1]))
        on_cpu = is_numpy(namespace(sample.like)) if cluster is None else cluster.device in (None, "cpu")
        online = replace(online, coder=coder, code_iter=code_iter)
        procedure = Limited(source, sample, n_atoms, online, rounds, patience, seed, gather, on_cpu)
        settings = {"objective": "l0", "rounds": rounds, "patience": patience, "online": repr(online)}
    else:
        pool = draw_rows(source, SPARE * n_atoms, np.random.default_rng([seed, 0]))
        check_magnitude("signals", pool)
        coding = (coder or _penalized_coder(pool), n_atoms if sparsity is None else sparsity, code_iter or ITERATIONS)
        procedure = Penalized(source, validation, pool, n_atoms, coding, seed, gather)
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
            stage, dictionary = _resumed(checkpoint, dictionary)
        while len(dictionary.rounds) < rounds and not procedure.finished(dictionary.rounds):
            number, batches = len(dictionary.rounds) + 1, procedure.batches(dictionary.rounds)

            def report(
                batch: int, number: int = number, batches: int = batches, before: Dictionary = dictionary
            ) -> None:
                if progress is not None:
                    progress(Progress(number, rounds, batch, batches, before))

            stage, numbers = procedure.round(stage, dictionary.Phi, dictionary.rounds, report)
            done = [*dictionary.rounds, numbers]
            newest = procedure.best(done) == len(done) - 1
            dictionary = Dictionary(stage.Phi if newest else dictionary.Phi, done, provenance)
            if checkpoint is not None:
                files.write_npz(checkpoint, dictionary.arrays() | stage.arrays(), compress=False)
            if progress is not None:
                progress(Progress(number, rounds, batches, batches, dictionary))
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
    real_number("max_coherence", max_coherence, "a number above 0 and at most 1", low=0.0, high=1.0)
    return Online(sparsity or 1, None, None, nonnegative_codes, nonnegative_atoms, max_coherence)


def _penalized_coder(signals: Array) -> ADMM:
    """ADMM with the weights that performed best on patches of photographs, scaled to the signals."""
    size = float(namespace(signals).sum(squared_norm(signals)) / signals.shape[0]) ** 0.5
    mu = 2.0
    return ADMM(mu=mu, lam=float(f"{mu * THRESHOLD * size:.3g}"))


def _resumed(checkpoint: str, start: Dictionary) -> tuple[Stage, Dictionary]:
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
        raise InputError(
            f"{checkpoint}: was learned with other values of {', '.join(other)}; "
            "use the same values to continue, or another file to start over"
        )
    dictionary = Dictionary(from_numpy(to_numpy(saved.Phi), start.Phi), saved.rounds, start.provenance)
    try:
        return Stage.restored(files.read_npz(checkpoint), dictionary.Phi), dictionary
    except (KeyError, ValueError):
        raise InputError(f"{checkpoint}: damaged (its statistics cannot be read)") from None
