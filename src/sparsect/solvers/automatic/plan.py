"""The stages of a run, chosen by the properties of Phi and the number of nonzeros allowed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from ...backend.arrays import is_complex
from ...operators import Operator
from ...operators.dense import SIMILAR
from ...problems import Problem

# Phi is like a random matrix if no two columns are similar. With few measurements, some random vectors are, too. Then
# the largest cosine may be this multiple of the largest expected one, but at most the second number, and the number of
# similar pairs may be this multiple of the expected number, and so many more.
EXPECTED, HIGHEST, MORE, PAIRS = 1.25, 0.9, 2.0, 5
# Supports are sampled if s^2 is at most this multiple of m: beyond, sweeps are too expensive.
SAMPLED = {"recovery": 64.0, "approximation": 16.0}
# The largest number of columns whose Gram matrix is kept in memory, where it takes 2 GiB.
COLUMNS = 16384
# What messages neglect vanishes only as Phi grows. Even if Phi is like a random matrix, supports are sampled with up to
# the first number of measurements, and in rows that messages have not explained up to the second.
FEW, MODERATE = 48, 128


class Task(Enum):
    """The work of a stage.

    Attributes
    ----------
    CHAIN
        A hot chain of supports cools down and is sampled.
    SEARCH
        The annealed Difference Map searches, and passes messages.
    CHECK
        A chain that starts from the support found by the search is sampled.
    """

    CHAIN = "chain"
    SEARCH = "search"
    CHECK = "check"


@dataclass(frozen=True)
class Stage:
    """A part of a run.

    Attributes
    ----------
    task : Task
        The work of the stage.
    begin, end : float
        The fractions of the run at which the stage begins and ends.
    """

    task: Task
    begin: float
    end: float

    def part(self, fraction: float) -> float:
        """Return the part of the stage that has passed.

        Parameters
        ----------
        fraction : float
            The fraction of the run that has passed.

        Returns
        -------
        float
            A number from 0 to 1.
        """
        return min(1.0, (fraction - self.begin) / (self.end - self.begin))


SEARCH_ONLY = (Stage(Task.SEARCH, 0.0, 1.0),)
STAGES = {
    # The run ends before the last two chains if the first one agrees with the one that starts from the search.
    "recovery": (
        Stage(Task.CHAIN, 0.0, 0.2),
        Stage(Task.SEARCH, 0.2, 0.6),
        Stage(Task.CHECK, 0.6, 0.7),
        Stage(Task.CHAIN, 0.7, 0.85),
        Stage(Task.CHAIN, 0.85, 1.0),
    ),
    # Chains are for rows in which messages expect far too many nonzeros.
    "check": (
        Stage(Task.SEARCH, 0.0, 0.7),
        Stage(Task.CHECK, 0.7, 0.8),
        Stage(Task.CHAIN, 0.8, 0.9),
        Stage(Task.CHAIN, 0.9, 1.0),
    ),
    "approximation": (
        Stage(Task.SEARCH, 0.0, 0.4),
        Stage(Task.CHAIN, 0.4, 0.55),
        Stage(Task.CHAIN, 0.55, 0.7),
        Stage(Task.CHAIN, 0.7, 0.85),
        Stage(Task.CHAIN, 0.85, 1.0),
    ),
}


def stages_for(problem: Problem, goal: str) -> tuple[Stage, ...]:
    """Choose the stages of a run.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    goal : {'recovery', 'approximation'}
        The goal of the run.

    Returns
    -------
    tuple of Stage
        The stages, one after the other.
    """
    A, operator = problem.structure, problem.operator.inner
    if A.nearest is not None or not operator.is_dense:
        return SEARCH_ONLY
    (m, n), s = operator.shape, A.size // problem.operator.times
    if not 0 < s < m or s * s > SAMPLED[goal] * m or n > COLUMNS:
        return SEARCH_ONLY
    # Columns that are orthogonal, or zero, are no task for chains.
    if goal == "recovery" and (is_random_like(operator) if m > FEW else operator.coherence == 0):
        return STAGES["check"] if FEW < m <= MODERATE else SEARCH_ONLY
    return STAGES[goal]


def is_random_like(operator: Operator) -> bool:
    """Whether the cosines between columns of Phi are as small as those of random vectors.

    Parameters
    ----------
    operator : Operator
        A dense operator.

    Returns
    -------
    bool
        False if columns resemble each other.
    """
    if operator.coherence <= SIMILAR:
        return True
    m, n = operator.shape
    if operator.coherence > min(HIGHEST, EXPECTED * math.sqrt(2 * math.log(n * n) / m)):
        return False
    # Cosines of random vectors are normal with variance 1/m, and so are the parts of complex ones with half of that.
    share = math.exp(-m * SIMILAR**2) if is_complex(operator.Phi) else math.erfc(SIMILAR * math.sqrt(m / 2))
    similar, compared = operator.similar
    return similar <= MORE * share * compared + 2 * PAIRS
