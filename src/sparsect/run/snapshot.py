"""The state of a run as callbacks and measures see it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..backend.arrays import Array
from ..operators.repeated import split
from .convergence import converged
from .state import is_stable, steps_taken

if TYPE_CHECKING:
    from .run import Run


class Snapshot:
    """The state of a run as seen by callbacks and measures.

    A snapshot covers all rows, finished or not. Properties that are expensive are computed on access.

    Parameters
    ----------
    run : Run
        The run, which creates its snapshots itself.

    Attributes
    ----------
    iteration : int
        The number of iterations so far.
    seconds : float
        The time spent on iterating so far.

    Examples
    --------
    Stop as soon as the residual of every signal is small:

    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, batch=2, rng=0)
    >>> def small_residual(snapshot):
    ...     return bool((snapshot.residual_norm < 1e-2).all())
    >>> result = sparsect.recover(
    ...     problem.Phi, problem.y, sparsity=6, method="difference-map", callback=small_residual
    ... )
    >>> bool((result.residual_norm < 1e-2).all())
    True
    """

    def __init__(self, run: Run) -> None:
        self._run, self._state = run, run.state
        self.iteration = run.state.iteration
        self.seconds = run.clock.seconds

    @property
    def criterion(self) -> Array:
        """The stopping criterion of each row, shape (batch,); ``Solver.criterion`` says what it measures."""
        value = self._state.joined([part.criterion for part in self._state.done], self._state.state.criterion)
        unit = self._run.units.y if self._run.solver.criterion == "iterate_residual" else self._run.units.x
        return value if unit is None else value * unit

    @property
    def converged(self) -> Array:
        """Whether each row has converged, a NumPy array of shape (batch,); see :class:`Result`."""
        running = converged(self._state.state, self._run.goal[self._state.rows])
        return self._state.joined([part.converged for part in self._state.done], running)

    @cached_property
    def _answer(self) -> tuple[Array, dict[str, Array]]:
        """The solution of each row and its details, in the units of the run."""
        done = self._state.done
        if not self._state.rows.size:
            x, details = done[0].x[:0, ...], {name: value[:0, ...] for name, value in done[0].details.items()}
        else:
            x, details = self._run.answer(self._state.problem, self._state.state)
        whole = {
            name: self._state.joined([part.details[name] for part in done], value) for name, value in details.items()
        }
        return self._state.joined([part.x for part in done], x), whole

    @property
    def _estimate(self) -> Array:
        return self._answer[0]

    @property
    def details(self) -> dict[str, Array]:
        """What the solver knows about the solutions, by the name of the attribute of :class:`Result`."""
        details, units = self._answer[1], self._run.units
        for name, convert in (("standard_deviation", units.magnified), ("inclusion_probability", units.widened)):
            if name in details:
                details = details | {name: convert(details[name])}
        return {name: self._shaped(value) if value.ndim > 1 else value for name, value in details.items()}

    @cached_property
    def x(self) -> Array:
        """The solver's estimate of each row, shape (batch, n), or (batch, times, n) for joint supports."""
        found = self._run.units.original(self._estimate)
        # Scaling rounds, also what is at a bound.
        return self._shaped(self._run.problem.structure.clipped(found))

    def _shaped(self, rows: Array) -> Array:
        """Separate the times of signals with joint supports."""
        times = self._run.problem.times
        return rows if times is None else split(rows, times)

    @property
    def support(self) -> Array:
        """The support, shape (batch, n): True where x is not zero."""
        return self.x != 0

    @property
    def residual_norm(self) -> Array:
        """The norm of the residual of each row, ||Phi x - y||, shape (batch,)."""
        problem, unit = self._run.scaled, self._run.units.y
        left = self._run.solver.misfit(problem, self._estimate)
        return left if unit is None else left * unit

    @property
    def n_iter(self) -> Array:
        """The number of steps of each row, a NumPy array of shape (batch,)."""
        running = steps_taken(self._state.state, self.iteration)
        return self._state.joined([part.n_iter for part in self._state.done], running)

    @property
    def stable(self) -> Array | None:
        """Whether each support is stable, a NumPy array of shape (batch,), or None if the solver does not track it."""
        if self._state.state.unchanged is None:
            return None
        running = is_stable(self._state.state, self.iteration)
        return self._state.joined([part.stable for part in self._state.done], running)
