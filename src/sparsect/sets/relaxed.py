"""A proximal step towards {Phi x = y}: x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)."""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.checks import settle_number
from .base import DataSet


@dataclass(frozen=True)
class ProximalStep(DataSet):
    """B softened: a step towards {Phi x = y} that spares directions in which Phi is weak (sigma^2 below ``alpha``).

    Not a projection but the proximal map of ||Phi x - y||^2 / (2 alpha).
    """

    alpha: float

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "a number of at least 0", low=0.0)
