"""What the annealed map does when: how hard the data set is, how many entries are kept, what is averaged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...kernels.search import Schedule
from ...operators.row_space import Orthonormal
from ...problems import Problem

# alpha at the beginning and at the end of the search, relative to the mean squared norm of Phi's columns.
ALPHA = {"recovery": (0.03, 0.5), "approximation": (0.15, 1.0)}
# For approximation, the fraction of s entries kept at first, and the part of the search until all are.
FEWER, GROWING = 0.5, 0.8
# For recovery, the part of the run that searches where messages follow; the second half of the search is averaged.
SEARCHING, AVERAGED = 0.8, 0.5
# What is averaged has this part of s entries: fewer than there are, because the last ones fit noise.
CAUTIOUS = 0.8


@dataclass(frozen=True)
class Plan:
    """The course of one run, as functions of the part of its search that is over, from 0 to 1.

    Attributes
    ----------
    goal : str
        "recovery" or "approximation".
    sparsity : int
        Entries that the answer may have.
    column_energy : float
        Mean squared norm of Phi's columns.
    messages : bool
        Whether messages follow the search: for recovery, where the singular values of Phi are known.
    """

    goal: str
    sparsity: int
    column_energy: float
    messages: bool

    @classmethod
    def of(cls, problem: Problem, goal: str) -> Plan:
        """The plan for a problem."""
        messages = goal == "recovery" and isinstance(problem.operator.row_space, Orthonormal)
        return cls(goal, problem.sparsity, problem.operator.column_energy, messages)

    def searched(self, fraction: float) -> float:
        """The part of the search that is over with ``fraction`` of the run; above 1 it is time for messages."""
        return fraction / SEARCHING if self.messages else fraction

    def alpha(self, searched: float) -> float:
        """Relaxation of the data set."""
        first, last = ALPHA[self.goal]
        return float(first * (last / first) ** searched * self.column_energy)

    def kept(self, searched: float) -> int:
        """Entries of a point of A."""
        share = 1.0
        if self.goal == "approximation":
            share = FEWER + (1 - FEWER) * min(1.0, searched / GROWING)
        elif self.messages and self.averages(searched):
            share = CAUTIOUS
        return math.ceil(share * self.sparsity)

    def averages(self, searched: float) -> bool:
        """Whether points of A are averaged."""
        return self.goal == "recovery" and searched >= 1 - AVERAGED

    def schedule(self, searched: Sequence[float]) -> Schedule:
        """All of this for several steps."""
        return Schedule(
            alphas=[self.alpha(part) for part in searched],
            kept=[self.kept(part) for part in searched],
            averaged=[self.averages(part) for part in searched],
        )
