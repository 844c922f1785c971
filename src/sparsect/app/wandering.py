"""The Difference Map in the plane, step by step: A is the two axes, B is a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backend.arrays import Array, FloatArray
from ..projections import project_data, project_sparse

# Half the width of the part of the plane that is drawn.
REACH = 2.4


@dataclass(frozen=True)
class Step:
    """One step of the Difference Map.

    Attributes
    ----------
    x : array, shape (2,)
        The iterate.
    in_A : array, shape (2,)
        P_A(f_B(x)), the point on an axis.
    in_B : array, shape (2,)
        P_B(f_A(x)), the point on the line.
    """

    x: FloatArray
    in_A: FloatArray
    in_B: FloatArray

    @property
    def gap(self) -> float:
        """The distance between the two points, which is zero at a solution."""
        return float(np.linalg.norm(self.in_A - self.in_B))


@dataclass(frozen=True)
class Plane:
    """The two sets and the map.

    Attributes
    ----------
    angle : float
        Angle between the line and the first axis, in degrees.
    offset : float
        Distance of the line from the origin.
    beta : float
        Parameter of the map.
    """

    angle: float
    offset: float
    beta: float

    @property
    def normal(self) -> FloatArray:
        """The normal of the line, which is the one row of Phi."""
        turned = np.deg2rad(self.angle + 90)
        return np.array([np.cos(turned), np.sin(turned)])

    def at(self, x: FloatArray) -> Step:
        """Return the two points between which the map moves.

        Parameters
        ----------
        x : array, shape (2,)
            The iterate.

        Returns
        -------
        Step
            The iterate with both points.
        """
        on_axis, on_line = project_sparse(x, 1), self._on_line(x)
        f_A = on_axis - (on_axis - x) / self.beta
        f_B = on_line + (on_line - x) / self.beta
        return Step(x, np.asarray(project_sparse(f_B, 1)), self._on_line(f_A))

    def _on_line(self, x: Array) -> FloatArray:
        return np.asarray(project_data(x, self.normal[None], np.array([self.offset])))

    def after(self, step: Step) -> Step:
        """Take one step: x + beta (P_A(f_B(x)) - P_B(f_A(x))).

        Parameters
        ----------
        step : Step
            Where the map is.

        Returns
        -------
        Step
            Where it is next.
        """
        return self.at(step.x + self.beta * (step.in_A - step.in_B))


def drawing(plane: Plane, path: list[Step]) -> str:
    """Draw the sets and the path.

    Parameters
    ----------
    plane : Plane
        The sets.
    path : list of Step
        The steps so far, at least one.

    Returns
    -------
    str
        An SVG image.
    """
    along, foot = np.array([plane.normal[1], -plane.normal[0]]), plane.offset * plane.normal
    ends = [foot + 2 * REACH * along, foot - 2 * REACH * along]
    now = path[-1]
    points = " ".join(f"{one.x[0]:.4f},{-one.x[1]:.4f}" for one in path)
    dots = "".join(
        f'<circle cx="{one.x[0]:.4f}" cy="{-one.x[1]:.4f}" r="0.035" fill="var(--vermilion)" '
        f'opacity="{0.25 + 0.75 * (place + 1) / len(path):.2f}"/>'
        for place, one in enumerate(path)
    )
    words = f"The Difference Map after {len(path) - 1} steps, gap {now.gap:.3g}"
    return (
        f'<svg class="plane" viewBox="{-REACH} {-REACH} {2 * REACH} {2 * REACH}" role="img" aria-label="{words}">'
        f'<g stroke="var(--blue)" stroke-width="0.035"><line x1="{-REACH}" x2="{REACH}" y1="0" y2="0"/>'
        f'<line y1="{-REACH}" y2="{REACH}" x1="0" x2="0"/></g>'
        f"{_line(ends[0], ends[1], 'var(--teal)', 0.035)}"
        f'<polyline points="{points}" fill="none" stroke="var(--vermilion)" stroke-width="0.018" opacity="0.6"/>{dots}'
        f"{_line(now.in_A, now.in_B, 'var(--faint)', 0.016, '0.05 0.04')}"
        f'<circle cx="{now.in_A[0]:.4f}" cy="{-now.in_A[1]:.4f}" r="0.06" fill="var(--blue)"/>'
        f'<circle cx="{now.in_B[0]:.4f}" cy="{-now.in_B[1]:.4f}" r="0.06" fill="var(--teal)"/>'
        f'<circle cx="{now.x[0]:.4f}" cy="{-now.x[1]:.4f}" r="0.08" fill="var(--vermilion)" stroke="var(--paper)" '
        'stroke-width="0.02"/>'
        f'<g font-size="0.2" font-weight="600"><text x="{REACH - 0.3}" y="-0.1" fill="var(--blue)">A</text>'
        f'<text x="{foot[0] + 0.15:.3f}" y="{-foot[1] - 0.15:.3f}" fill="var(--teal)">B</text></g></svg>'
    )


def _line(start: FloatArray, end: FloatArray, colour: str, width: float, dashes: str = "none") -> str:
    return (
        f'<line x1="{start[0]:.4f}" y1="{-start[1]:.4f}" x2="{end[0]:.4f}" y2="{-end[1]:.4f}" stroke="{colour}" '
        f'stroke-width="{width}" stroke-dasharray="{dashes}"/>'
    )
