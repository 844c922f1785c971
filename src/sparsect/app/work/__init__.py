"""What the workers do; nothing here knows about browsers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Sender = Callable[[Any], None]
# Seconds between two messages of a run.
PERIOD = 0.4


@dataclass(frozen=True)
class Progress:
    """A message that tells how much is done.

    Attributes
    ----------
    words : str
        What is being done.
    share : float
        From 0 to 1.
    """

    words: str
    share: float
