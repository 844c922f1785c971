"""The schedule of the annealed map: relaxation of the data set, number of entries kept, averaging."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...kernels.search import Schedule
from ...kernels.thresholding import Structure
from ...operators.pseudo_inverse import OrthonormalBasis
from ...problems import Problem

# alpha at the beginning and at the end of a search of so many steps, for columns of unit norm in the mean square.
ALPHA, STEPS = {"recovery": (0.03, 0.5), "approximation": (0.15, 1.0)}, 1000
# A search for an approximation with another number of steps starts with an alpha that is larger by the square root of
# how much shorter it is, but not above this: it has no time to wander.
HARDEST = 0.65
# For approximation: the fraction of the s entries kept at first, and the fraction of the search after which all are.
FEWER, GROWING = 0.3, 0.8
# For recovery: the fraction of the run spent on the search if messages follow, and the fraction of the search, at its
# end, that is averaged.
SEARCHING, AVERAGED = 0.8, 0.5
# Averaged points have this fraction of s entries. It is below 1 because the smallest entries fit noise.
CAUTIOUS = 0.8


@dataclass(frozen=True)
class Plan:
    """The schedule of one run, as functions of the fraction of its search that has passed, from 0 to 1.

    Attributes
    ----------
    goal : {'recovery', 'approximation'}
        What the run is for.
    structure : Structure
        What x may look like.
    column_energy : float
        The mean squared norm of Phi's columns.
    messages : bool
        Whether messages follow the search: for recovery, if the singular values of Phi are known.
    evident : bool
        Whether a point of both sets ends the search. If groups may have as many entries as there are measurements,
        there is such a point for any y, and messages decide.
    """

    goal: str
    structure: Structure
    column_energy: float
    messages: bool
    evident: bool

    @classmethod
    def of(cls, problem: Problem, goal: str) -> Plan:
        """Return the plan for a problem.

        Parameters
        ----------
        problem : Problem
            The problem to solve.
        goal : {'recovery', 'approximation'}
            What the run is for.

        Returns
        -------
        Plan
            The schedule.
        """
        messages = goal == "recovery" and isinstance(problem.operator.pseudo_inverse, OrthonormalBasis)
        A, operator = problem.structure, problem.operator
        loose = A.grouped and operator.times == 1 and A.size >= operator.shape[0]
        return cls(goal, A, operator.column_energy, messages, not (messages and loose))

    def searched(self, fraction: float) -> float:
        """Return the fraction of the search that has passed.

        Parameters
        ----------
        fraction : float
            The fraction of the run that has passed, from 0 to 1.

        Returns
        -------
        float
            The fraction of the search; above 1, messages are passed.
        """
        return fraction / SEARCHING if self.messages else fraction

    def alpha(self, searched: float, taken: float = 0) -> float:
        """Return the relaxation of the data set.

        Parameters
        ----------
        searched : float
            The fraction of the search that has passed, from 0 to 1.
        taken : float, optional
            The number of steps in which it has passed; it tells how long the search will be.

        Returns
        -------
        float
            The parameter alpha.
        """
        first, last = ALPHA[self.goal]
        if self.goal == "approximation":
            steps = round(taken / searched) if searched > 0 else 0
            first = min(HARDEST, first * math.sqrt(STEPS / max(steps, 1)))
        return float(first * (last / first) ** searched * self.column_energy)

    def kept(self, searched: float) -> Structure:
        """Return what points of A look like: the fewer entries are kept, the less noise they fit.

        Parameters
        ----------
        searched : float
            The fraction of the search that has passed, from 0 to 1.

        Returns
        -------
        Structure
            The set A, possibly with fewer nonzeros.
        """
        share = 1.0
        if self.goal == "approximation":
            share = FEWER + (1 - FEWER) * min(1.0, searched / GROWING)
        elif self.messages and self.averages(searched):
            share = CAUTIOUS
        return self.structure.part(share)

    def averages(self, searched: float) -> bool:
        """Return whether points of A are averaged.

        Parameters
        ----------
        searched : float
            The fraction of the search that has passed, from 0 to 1.

        Returns
        -------
        bool
            True in the second half of a search for recovery.
        """
        return self.goal == "recovery" and searched >= 1 - AVERAGED

    def schedule(self, searched: Sequence[float], taken: float) -> Schedule:
        """Return the schedule of several steps.

        Parameters
        ----------
        searched : sequence of float
            The fraction of the search that has passed before each step.
        taken : float
            The number of steps before the first of them.

        Returns
        -------
        Schedule
            The relaxation, the number of entries kept and whether points are averaged, for each step.
        """
        return Schedule(
            alphas=[self.alpha(part, taken + number) for number, part in enumerate(searched)],
            kept=[self.kept(part) for part in searched],
            averaged=[self.averages(part) for part in searched],
        )
