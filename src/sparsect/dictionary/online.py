"""Learning from mini-batches: the dictionary follows recent signals, and remembers more of them as learning proceeds.

Each step codes a few signals and adds their statistics to a sum in which earlier signals fade, S <- w S + S_new. One
sweep of block coordinate descent over the atoms follows (Mairal et al. 2010). A short memory keeps atoms moving, which
leads out of poor local minima, and a long one settles them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..backend.arrays import Array, contiguous, namespace
from ..backend.checks import real_number, reject, truth_value, whole_number
from ..kernels.thresholding import Kind
from ..operators import as_operator
from ..problems import Problem
from ..sets import Sparse
from ..solvers import METHODS, AnnealedDifferenceMap, LeastAngleRegression, OrderRecursiveMatchingPursuit
from ..solvers.base import Solver, check_solver
from .samples import completed
from .statistics import Statistics, gather
from .updates import SAME, coordinate_descent, turned_apart, with_replacements

# Number of signals in a step, at first and at the most. Small products do not keep a GPU busy.
BATCH, LARGEST, GPU_BATCH = 256, 1024, 4096
# A larger step has at most these fractions of the signals that are remembered, and of all signals.
OF_REMEMBERED, OF_ALL = 1 / 6, 1 / 10
# The memory, in remembered signals that use an atom, at the beginning and at the end of learning.
MEMORY = (10.0, 300.0)
# Codes have this fraction of the nonzeros at the beginning, and all of them after this fraction of learning.
FEWER, RAMP = 0.5, 0.67
# Atoms used less than this fraction of the mean are replaced: they fit a few signals, and others lack an atom.
SELDOM = 0.1
# How often all pairs of atoms are visited to turn them apart, in a step and at the end of a round.
TURNS, LAST_TURNS = 10, 100
# If signals use an atom less often than this many times for each of its entries, or there are at most so many signals,
# codes are shrunk by an l1 penalty.
FEW, SMALL = 1.5, 1000
# Shrunk codes have this many times the nonzeros on average, and at most that many times in one signal.
SHRUNK, LONGEST = 1.5, 4
# Signals from whose paths the penalty is determined.
PATHS = 64
# Iterations of the annealed map, which computes nonnegative codes.
NONNEGATIVE_ITER = 10


@dataclass(frozen=True)
class Online:
    """Settings of learning from mini-batches.

    Parameters
    ----------
    sparsity : int
        Maximum number of nonzeros per code.
    coder : Solver, optional
        The solver that codes; the default depends on whether codes are nonnegative.
    code_iter : int, optional
        Maximum number of iterations of the coder.
    nonnegative_codes, nonnegative_atoms : bool, optional
        Whether the codes, and the entries of the atoms, are nonnegative.
    max_coherence : float, optional
        The largest absolute inner product that two atoms may have, see :func:`sparsect.dictionary.learn`.
    """

    sparsity: int
    coder: Solver | None = None
    code_iter: int | None = None
    nonnegative_codes: bool = False
    nonnegative_atoms: bool = False
    max_coherence: float = 0.95

    def __post_init__(self) -> None:
        whole_number("sparsity", self.sparsity, 1)
        for name in ("nonnegative_codes", "nonnegative_atoms"):
            truth_value(name, getattr(self, name))
        accepted = "a number above 0 and at most 1"
        real_number("max_coherence", self.max_coherence, accepted, low=0.0, high=1.0, nonzero=True)
        if self.code_iter is not None:
            whole_number("code_iter", self.code_iter, 1)
        if self.coder is not None:
            check_solver("coder", self.coder)
            if self.nonnegative_codes and Kind.BOUNDS not in self.coder.takes:
                able = ", ".join(name for name, solver in METHODS.items() if Kind.BOUNDS in solver.takes)
                got = f"{self.coder.name!r}, which does not take bounds, with nonnegative_codes"
                raise reject("coder", got, f"one of {able}")

    def overfits(self, signals: int, n_atoms: int, entries: int) -> bool:
        """Whether there are so few signals that atoms would fit their noise, and codes should be shrunk.

        Parameters
        ----------
        signals, n_atoms, entries : int
            Number of signals, of atoms, and of the entries of an atom.

        Returns
        -------
        bool
            False also if codes are nonnegative or a coder is given.
        """
        few = signals <= SMALL or signals * self.sparsity < FEW * n_atoms * entries
        return few and self.coder is None and not self.nonnegative_codes

    def penalty(self, Phi: Array, signals: Array) -> float:
        """Return the weight of the l1 norm with which codes have 1.5 times the nonzeros, on average.

        Parameters
        ----------
        Phi : numpy.ndarray, shape (m, n)
            The dictionary.
        signals : numpy.ndarray, shape (rows, m)
            Some signals; the first ones are used.

        Returns
        -------
        float
            The weight.
        """
        most, solver = self._longest(Phi), LeastAngleRegression()
        problem = Problem(as_operator(Phi), completed(signals)[:PATHS], most)
        state, none, changes = solver.init(problem), np.zeros(problem.batch), []
        for _ in range(most):
            changes.append(solver.alphas(state))
            state = solver.steps(problem, state, none, [0.0])
        # A code has as many nonzeros as its path has changes before the weight, if no column leaves again.
        wanted = min(round(SHRUNK * self.sparsity * problem.batch), most * problem.batch - 1)
        return float(np.sort(np.concatenate(changes))[::-1][wanted])

    def shrunk(self, Phi: Array, penalty: float) -> tuple[Solver, Sparse, int]:
        """Return the coder, the set of codes and the number of iterations for codes that a penalty shrinks.

        Parameters
        ----------
        Phi : numpy.ndarray, shape (m, n)
            The dictionary.
        penalty : float
            The weight of the l1 norm.

        Returns
        -------
        tuple
            The coder, the set, and the number.
        """
        most = self._longest(Phi)
        return LeastAngleRegression(penalty), Sparse(most), 2 * most

    def _longest(self, Phi: Array) -> int:
        return min(LONGEST * self.sparsity, *Phi.shape)

    def coding(self, fraction: float = 1.0) -> tuple[Solver, Sparse, int]:
        """Return the coder, the set of codes and the number of iterations.

        Parameters
        ----------
        fraction : float, optional
            Which fraction of learning is done; codes have fewer nonzeros at the beginning.

        Returns
        -------
        tuple
            The coder, the set, and the number.
        """
        size = max(1, round((FEWER + (1 - FEWER) * min(1.0, fraction / RAMP)) * self.sparsity))
        signed = not self.nonnegative_codes
        default = OrderRecursiveMatchingPursuit() if signed else AnnealedDifferenceMap("approximation")
        codes = Sparse(size, nonnegative=self.nonnegative_codes)
        return self.coder or default, codes, self.code_iter or max(self.sparsity, NONNEGATIVE_ITER)

    def memory(self, n_atoms: int, fraction: float) -> float:
        """Return how many signals are remembered.

        Parameters
        ----------
        n_atoms : int
            Number of atoms.
        fraction : float
            Which fraction of learning is done.

        Returns
        -------
        float
            The number.
        """
        first, last = MEMORY
        return float(first * (last / first) ** fraction * n_atoms / self.sparsity)

    def batch(self, n_atoms: int, fraction: float, signals: int, on_host: bool) -> int:
        """Return how many signals a step codes.

        Parameters
        ----------
        n_atoms : int
            Number of atoms.
        fraction : float
            Which fraction of learning is done.
        signals : int
            Number of all signals.
        on_host : bool
            Whether they are in main memory, not on a GPU.

        Returns
        -------
        int
            The number. It grows with the memory, so that what is remembered comes from few, recent dictionaries.
        """
        if not on_host:
            return min(GPU_BATCH, signals)
        more = min(OF_REMEMBERED * self.memory(n_atoms, fraction), OF_ALL * signals, LARGEST)
        return min(max(BATCH, round(more)), signals)

    def progress(self, n_atoms: int, seen: float) -> float:
        """For streams: return the fraction of learning at which a quarter of the signals seen so far are remembered.

        Parameters
        ----------
        n_atoms : int
            Number of atoms.
        seen : float
            Number of signals seen.

        Returns
        -------
        float
            The fraction, from 0 to 1.
        """
        first, last = MEMORY
        uses = seen / 4 * self.sparsity / n_atoms
        return min(1.0, math.log(max(uses, first) / first) / math.log(last / first))

    def recalled(self, Phi: Array, energy: float) -> Statistics:
        """Return statistics that stand for all signals from which a dictionary was learned.

        They are those of codes that are not correlated, with the energy of the signals: by themselves they leave the
        dictionary unchanged.

        Parameters
        ----------
        Phi : numpy.ndarray, shape (m, n)
            The dictionary.
        energy : float
            The mean squared norm of the signals.

        Returns
        -------
        Statistics
            The statistics of as many signals as are remembered at the end of learning.
        """
        n_atoms, count = Phi.shape[1], self.memory(Phi.shape[1], 1.0)
        codes = count * energy / n_atoms * np.eye(n_atoms)
        usage = np.full(n_atoms, count * self.sparsity / n_atoms)
        return Statistics(codes, codes @ Phi.T, usage, 0.0, count * energy, count)

    def step(
        self, Phi: Array, past: Statistics | None, signals: Array, fraction: float, penalty: float | None = None
    ) -> tuple[Array, Statistics, Statistics]:
        """Code signals, add their statistics to those of earlier ones, and update the dictionary.

        Parameters
        ----------
        Phi : array, shape (m, n)
            The current dictionary.
        past : Statistics or None
            Statistics of earlier signals; None before the first step.
        signals : array, shape (rows, m)
            The signals, of the same array library.
        fraction : float
            Which fraction of learning is done.
        penalty : float, optional
            The weight of the l1 norm that shrinks codes; by default, they are not shrunk.

        Returns
        -------
        Phi : array, shape (m, n)
            The new dictionary.
        recent : Statistics
            The statistics for the next step.
        new : Statistics
            The statistics of these signals alone.
        """
        coding = self.coding(fraction) if penalty is None else self.shrunk(Phi, penalty)
        recent = new = gather(as_operator(Phi), signals, *coding)
        if past is not None:
            room = max(self.memory(Phi.shape[1], fraction) - new.count, 0.0)
            recent = past.faded(min(1.0, room / past.count)) + new
        atoms = coordinate_descent(recent, Phi.T, self.nonnegative_atoms)
        atoms = self._apart(atoms, TURNS)
        return contiguous(namespace(Phi).astype(atoms.T, Phi.dtype)), recent, new

    def replaced(self, atoms: Array, statistics: Statistics, spare: Array) -> tuple[Array, Statistics]:
        """Replace atoms that are of little use, and turn apart those that are too similar.

        Parameters
        ----------
        atoms : array, shape (n, m)
            The atoms, of norm 1, or zero.
        statistics : Statistics
            Statistics of the signals that the atoms coded.
        spare : array, shape (n, m)
            Atom j is replaced by row j, which has norm 1.

        Returns
        -------
        atoms : array, shape (n, m)
            The new atoms.
        statistics : Statistics
            The statistics, without the codes of the atoms that were replaced.
        """
        atoms, statistics = with_replacements(atoms, statistics, spare, max(self.max_coherence, SAME), SELDOM)
        return self._apart(atoms, LAST_TURNS), statistics

    def _apart(self, atoms: Array, sweeps: int) -> Array:
        """Turn atoms apart if the limit is so low that two may exceed it without being nearly the same."""
        if self.max_coherence >= SAME:
            return atoms
        return turned_apart(atoms, self.max_coherence, self.nonnegative_atoms, sweeps)
