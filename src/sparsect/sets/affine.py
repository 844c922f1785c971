"""B = {x : Phi x = y}, the paper's: P_B(x) = x - Phi^+ (Phi x - y)."""

from __future__ import annotations

from dataclasses import dataclass

from .base import DataSet


@dataclass(frozen=True)
class Affine(DataSet):
    """B = {x : Phi x = y}, or the least-squares solutions where y is out of reach."""

    alpha = 0.0
