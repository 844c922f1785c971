"""Learning from a stream of signals, which come in parts of any size and need not be kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..backend.arrays import Array, NumpyArray, contiguous
from ..backend.norms import norm
from .online import Online
from .samples import completed, starting_atoms
from .statistics import Statistics

# Signals in a step. Fewer than in a round over signals that are kept: each is seen once, and small steps use it better.
BATCH = 64
# Signals kept for each atom, from which atoms are taken that replace others.
KEPT = 4
# Steps between replacements of atoms.
REPLACING = 5


@dataclass(frozen=True)
class Stream:
    """What has been learned from the signals so far, and the signals that are kept.

    Signals that do not suffice for a step wait for others, so that it does not matter in which parts signals come.

    Attributes
    ----------
    online : Online
        Settings of the steps.
    n_atoms : int
        Number of atoms.
    seed : int
        Seed for the first atoms and replacements.
    rows : numpy.ndarray, shape (rows, m)
        The last signals: those that wait, and some before them from which replacements are taken.
    waiting : int
        Number of signals that wait for a step.
    Phi : numpy.ndarray, shape (m, n), or None
        The dictionary; None as long as there are too few signals to choose the first atoms from.
    recent : Statistics or None
        Statistics of the signals that are remembered.
    seen : float
        Number of signals in all steps so far; infinite for a dictionary that had been learned before.
    steps : int
        Number of steps so far.
    """

    online: Online
    n_atoms: int
    seed: int
    rows: NumpyArray
    waiting: int = 0
    Phi: Array | None = None
    recent: Statistics | None = None
    seen: float = 0.0
    steps: int = 0

    def followed(self, signals: NumpyArray) -> Stream:
        """Learn from further signals, except for those at the end that do not suffice for a step.

        Parameters
        ----------
        signals : numpy.ndarray, shape (rows, m)
            The signals.

        Returns
        -------
        Stream
            The new state.
        """
        measured = np.where(np.isnan(signals), 0.0, signals)
        if self.online.nonnegative_codes and self.online.nonnegative_atoms:
            measured = np.maximum(measured, 0.0)
        # Others have zeros for codes: nothing can be learned from them, nor may they become atoms.
        useful = norm(measured) > 0
        rows = np.concatenate([self.rows, signals[useful]])
        if self.Phi is None and not rows.size:
            # Raises the error.
            self._fresh(signals, 0)
        stream = replace(self, rows=rows, waiting=self.waiting + int(np.count_nonzero(useful)))
        if self.Phi is None and stream.waiting < self._first:
            return stream
        stream = stream._learned(BATCH)
        return replace(stream, rows=rows[-(KEPT * self.n_atoms + stream.waiting) :].copy())

    def ended(self) -> Stream:
        """Learn from all signals that still wait.

        Returns
        -------
        Stream
            The state at the end, if there are no further signals.
        """
        return self._learned(1)

    @property
    def _first(self) -> int:
        """Number of signals that the first atoms are taken from."""
        return max(BATCH, self.n_atoms)

    def _learned(self, least: int) -> Stream:
        """Make steps as long as at least so many signals wait."""
        Phi, recent, seen, steps, waiting = self.Phi, self.recent, self.seen, self.steps, self.waiting
        if Phi is None:
            Phi = contiguous(self._fresh(self.rows[: self._first], 0).T)
        while waiting >= least:
            start = self.rows.shape[0] - waiting
            # Before a full step, which makes atoms of signals; the last atoms should not be signals.
            if waiting >= BATCH and steps and steps % REPLACING == 0:
                assert recent is not None
                last = self.rows[:start][-KEPT * self.n_atoms :]
                atoms, recent = self.online.replaced(Phi.T, recent, self._fresh(last, steps))
                Phi = contiguous(atoms.T)
            signals = self.rows[start : start + BATCH]
            Phi, recent, _ = self.online.step(Phi, recent, signals, self.online.progress(self.n_atoms, seen))
            seen, steps, waiting = seen + signals.shape[0], steps + 1, waiting - signals.shape[0]
        return replace(self, waiting=waiting, Phi=Phi, recent=recent, seen=seen, steps=steps)

    def _fresh(self, signals: NumpyArray, number: int) -> Array:
        """Draw atoms from signals."""
        generate = np.random.default_rng([self.seed, number])
        signs = self.online.nonnegative_atoms, not self.online.nonnegative_codes
        return starting_atoms(completed(signals), self.n_atoms, generate, *signs)
