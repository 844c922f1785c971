"""The state of the annealed map: its phase, the point of the search, the running sums, the messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ...backend.arrays import Array, namespace, squared_norm
from ..vamp import MessageState

# During the search, a row has found a point of both sets if its criterion, relative to its scale, is below this.
CLOSED = 1e-4


class Phase(IntEnum):
    """The phase of a row.

    Attributes
    ----------
    SEARCH
        The row searches for a point of both sets.
    MESSAGES
        The row passes messages.
    """

    SEARCH = 0
    MESSAGES = 1


@dataclass(frozen=True, kw_only=True)
class AnnealedState(MessageState):
    """The state of :class:`AnnealedDifferenceMap`, with the fields of the messages that may follow the search.

    Fields that are not used are None. ``x`` is the iterate during the search, later the posterior mean.

    Attributes
    ----------
    phase : array of int, shape (batch,)
        The :class:`Phase` of each row.
    image : array, shape (batch, rank)
        The image coordinates of the iterate.
    sparse : array, shape (batch, n)
        The last point of A, later the thresholded posterior mean.
    total : array, shape (batch, n)
        The sum of the averaged points of A.
    power : array, shape (batch,)
        The sum of their squared norms.
    count : array, shape (batch,)
        The number of averaged points.
    radius : array, shape (batch,)
        The distance from the target that B allows.
    """

    phase: Array
    image: Array
    sparse: Array
    total: Array
    power: Array
    count: Array
    radius: Array

    @property
    def passes_messages(self) -> Array:
        """Whether each row has left the search and passes messages, shape (batch,)."""
        return self.phase == int(Phase.MESSAGES)

    @property
    def closed(self) -> Array:
        """Whether each row has found a point of both sets (or its messages have settled), shape (batch,)."""
        return self.criterion <= CLOSED * self.scale

    @property
    def averaged(self) -> Array:
        """Whether points of A have been averaged in each row, shape (batch,)."""
        return self.count > 0

    @property
    def mean(self) -> Array:
        """The average of points of A, zero where there are none, shape (batch, n)."""
        return self.total / self._steps[:, None]

    @property
    def spread(self) -> Array:
        """The mean squared deviation of an entry of these points from their average, shape (batch,)."""
        mean = self.mean
        return (self.power / self._steps - squared_norm(mean)) / mean.shape[-1]

    @property
    def _steps(self) -> Array:
        """The number of averaged points, or 1 where there are none."""
        return namespace(self.count).where(self.averaged, self.count, namespace(self.count).ones_like(self.count))
