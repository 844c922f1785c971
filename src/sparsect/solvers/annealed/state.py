"""Where a run of the annealed map stands: its phase, the point of the search, the running sums, the messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ...backend.arrays import Array, namespace, squared_norm
from ..vamp import MessageState

# A row with a gap below this, relative to its start, has found a point of both sets.
CLOSED = 1e-4


class Phase(IntEnum):
    """What a row is doing."""

    SEARCH = 0
    MESSAGES = 1


@dataclass(frozen=True, kw_only=True)
class AnnealedState(MessageState):
    """The search and, where messages follow it, the messages: what there is none of is None.

    ``phase`` is a :class:`Phase` for each row. ``x`` is the iterate, later the posterior mean; ``sparse`` the last
    point of A, later the thresholded mean; ``total`` and ``power`` add up points of A and their squared norms over
    ``count`` steps.
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
        """(batch,), whether each row has left the search for messages."""
        return self.phase == int(Phase.MESSAGES)

    @property
    def closed(self) -> Array:
        """(batch,), whether the gap of each row says that it has found a point of both sets, or come to rest."""
        return self.gap <= CLOSED * self.scale

    @property
    def averaged(self) -> Array:
        """(batch,), whether each row has anything to average."""
        return self.count > 0

    @property
    def mean(self) -> Array:
        """(batch, n), the average of points of A; zero where there is none."""
        return self.total / self._steps[:, None]

    @property
    def spread(self) -> Array:
        """(batch,), mean squared deviation of an entry of these points from their average."""
        mean = self.mean
        return (self.power / self._steps - squared_norm(mean)) / mean.shape[-1]

    @property
    def _steps(self) -> Array:
        return namespace(self.count).where(self.averaged, self.count, namespace(self.count).ones_like(self.count))
