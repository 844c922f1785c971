"""The base classes of solvers, their states and their requirements.

A solver consists of settings and pure functions. Its state holds everything needed to stop, save and resume a run, with
one row for each signal, so that the loop can remove finished rows.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Self

import numpy as np

from ..backend.arrays import Array, FloatArray, IntArray, from_numpy, namespace, take_rows, to_numpy
from ..backend.checks import reject, shown
from ..backend.engines import worth_compiling
from ..backend.norms import norm
from ..kernels.thresholding import Kind
from ..problems import Problem

# Size in bytes of one array of the block of rows that a core works on at a time. With smaller blocks, matrix products
# spend too much time on packing the matrix.
BLOCK_BYTES = 2**22


@dataclass(frozen=True, kw_only=True)
class State:
    """What a solver keeps from step to step: arrays with one row for each signal, or None if unused.

    A solver of your own derives its state from this class and adds its arrays as fields.

    Attributes
    ----------
    criterion : array, shape (batch,)
        The stopping criterion, a number of at least 0 that vanishes when a solution is found. ``Solver.criterion`` says
        what it measures.
    scale : array, shape (batch,)
        The reference for ``tol``: a row has converged when criterion <= tol * scale.
    settled : array of bool, shape (batch,), or None
        True where further steps do not change the solution. None if that cannot happen.
    failed : array of bool, shape (batch,), or None
        True where the iteration broke down and the row keeps its previous values. None if that cannot happen.
    taken : array, shape (batch,), or None
        The number of steps taken, for solvers whose rows can stop within a call of ``steps``. None if all rows take
        the same number of steps.
    unchanged : array, shape (batch,), or None
        The number of steps since the support last changed, for solvers that track it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import sparsect
    >>> @dataclass(frozen=True, kw_only=True)
    ... class MyState(sparsect.State):
    ...     x: np.ndarray
    >>> state = MyState(x=np.zeros((3, 8)), criterion=np.ones(3), scale=np.ones(3))
    >>> sorted(state.arrays())
    ['criterion', 'scale', 'x']
    >>> state.take(np.array([0, 2])).x.shape
    (2, 8)
    """

    # Names of the fields whose rows become longer during a run.
    growing: ClassVar[frozenset[str]] = frozenset()

    criterion: Array
    scale: Array
    settled: Array | None = None
    failed: Array | None = None
    taken: Array | None = None
    unchanged: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """Return the fields that are not None, by name.

        Returns
        -------
        dict of str to array
            The arrays of the state. Those of a field that is a state itself have names such as ``field.name``.
        """
        found: dict[str, Array] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, State):
                found |= {f"{field.name}.{name}": array for name, array in value.arrays().items()}
            elif value is not None:
                found[field.name] = value
        return found

    def replaced(self, arrays: Mapping[str, Array]) -> Self:
        """Return a copy of the state with other arrays.

        Parameters
        ----------
        arrays : mapping of str to array
            New arrays, named as in :meth:`arrays`.

        Returns
        -------
        State
            The copy.
        """
        inner: dict[str, dict[str, Array]] = {}
        for name, array in arrays.items():
            field, _, rest = name.partition(".")
            inner.setdefault(field, {})[rest] = array
        fields = {
            field: named[""] if "" in named else getattr(self, field).replaced(named) for field, named in inner.items()
        }
        return dataclasses.replace(self, **fields)

    def check(self, problem: Problem) -> None:
        """Check a state read from a file before compiled kernels use it.

        Dtypes, shapes (except those of growing fields) and finiteness have been checked before. Subclasses override
        this method if their kernels use arrays of the state as indices.

        Parameters
        ----------
        problem : Problem
            The problem that is solved.

        Raises
        ------
        ValueError
            If the state would lead the solver's kernels out of bounds.
        """

    def take(self, rows: IntArray) -> State:
        """Return the state of the given rows.

        Parameters
        ----------
        rows : array of int
            The rows to select.

        Returns
        -------
        State
            The state of these rows.
        """
        return self.replaced({name: take_rows(value, rows) for name, value in self.arrays().items()})


def joined(rows: Sequence[IntArray] | None, parts: Sequence[Any]) -> Any:
    """Join the states of several groups of rows.

    Parameters
    ----------
    rows : sequence of array of int, or None
        The places of each group's rows in the joined state. If None, the groups are concatenated.
    parts : sequence of State
        The states of the groups.

    Returns
    -------
    State
        The joined state.
    """
    arrays = [part.arrays() for part in parts]
    whole = {
        name: namespace(value).concat([part[name] for part in arrays], axis=0) for name, value in arrays[0].items()
    }
    state = parts[0].replaced(whole)
    return state if rows is None else state.take(np.argsort(np.concatenate(rows)))


def chosen(rows: Array, first: Any, second: Any) -> Any:
    """Select each row from one of two states.

    Parameters
    ----------
    rows : array of bool, shape (batch,)
        True for rows of ``first``, False for rows of ``second``.
    first, second : State
        The two states.

    Returns
    -------
    State
        The selected rows.
    """
    others = second.arrays()

    def pick(value: Array, other: Array) -> Array:
        # Some parts of a state may be in main memory although the others are not.
        xp = namespace(value)
        mask = rows if namespace(rows) is xp else from_numpy(to_numpy(rows), value)
        return xp.where(xp.reshape(mask, (-1,) + (1,) * (value.ndim - 1)), value, other)

    changed = {name: value for name, value in first.arrays().items() if value is not others[name]}
    return second.replaced({name: pick(value, others[name]) for name, value in changed.items()})


def kept_where_done(goal: FloatArray, before: Any, after: Any) -> Any:
    """Undo a step in the rows that were finished before it.

    This is used on a GPU, where several steps are taken between two convergence checks.

    Parameters
    ----------
    goal : array, shape (batch,)
        A row is finished when its criterion is at most its goal, or when it has settled or failed.
    before, after : State
        The states before and after the step.

    Returns
    -------
    State
        ``before`` in finished rows, ``after`` in the others.
    """
    xp = namespace(before.criterion)
    done = before.criterion <= xp.astype(from_numpy(goal, before.criterion), before.criterion.dtype)
    for ended in (before.settled, before.failed):
        done = done if ended is None else done | ended
    return chosen(done, before, after)


def in_blocks(
    problem: Problem,
    state: Any,
    like: Array,
    count: int,
    goal: FloatArray,
    some_steps: Callable[[Problem, Any, int, FloatArray], tuple[Any, int]],
) -> Any:
    """Take several steps in blocks of rows that run in parallel, one on each core.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : State
        The state of all rows.
    like : array, shape (batch, length)
        An array as large as the largest one of the state, from which the size of the blocks follows.
    count : int
        The number of steps. Rows whose criterion reaches ``goal`` take fewer.
    goal : array, shape (batch,)
        The criterion at which each row is finished.
    some_steps : callable
        A function ``some_steps(problem, state, taken, goal)`` that takes at least one step, and stops at the latest
        when a row is finished. ``taken`` is the number of steps taken before. It returns the new state and the number
        of steps, and may change the state in place.

    Returns
    -------
    State
        The state after the steps.
    """

    def run(first: int, last: int) -> Any:
        rows = np.arange(first, last)
        part, running = problem.take(rows), state.take(rows)
        places: list[Any] = []
        parts: list[Any] = []
        taken = 0
        while taken < count:
            running, steps = some_steps(part, running, taken, goal[rows])
            taken += steps
            done = to_numpy(running.criterion) <= goal[rows]
            for ended in (running.settled, running.failed):
                done |= False if ended is None else to_numpy(ended)
            if taken < count and done.any():
                places, parts = [*places, rows[done]], [*parts, running.take(np.flatnonzero(done))]
                going = np.flatnonzero(~done)
                rows, part, running = rows[going], part.take(going), running.take(going)
                if not going.size:
                    break
        return joined([*places, rows], [*parts, running]) if parts else running

    if not worth_compiling(like):
        return run(0, problem.batch)
    from ..backend.parallel import over_blocks

    blocks = over_blocks(run, problem.batch, BLOCK_BYTES // (like.shape[-1] * like.itemsize))
    return blocks[0] if len(blocks) == 1 else joined(None, blocks)


def device_for(solver: Any, device: str | None) -> str | None:
    """Choose the device for a solver.

    Parameters
    ----------
    solver : Solver
        The method.
    device : str or None
        The device that was requested.

    Returns
    -------
    str or None
        ``device``, or None (the device of the data) if it is "auto" and the solver runs on a CPU only.
    """
    return None if device == "auto" and Requirement.HOST in solver.needs else device


class Requirement(Enum):
    """What a solver may require of a problem; the values are the words used in error messages.

    Attributes
    ----------
    DENSE
        Phi is a dense matrix.
    SPECTRUM
        The singular values of Phi are known: Phi is a dense matrix or a tight frame.
    REAL
        Phi and y are real.
    HOST
        Phi and y are NumPy arrays.

    Examples
    --------
    >>> import sparsect
    >>> sorted(need.name for need in sparsect.LeastAngleRegression.needs)
    ['DENSE', 'HOST', 'REAL']
    """

    DENSE = "a dense Phi, not a sparse or matrix-free one"
    SPECTRUM = "the singular values of Phi: a dense Phi or a tight frame"
    REAL = "real data and Phi, not complex ones"
    HOST = "NumPy arrays (device 'cpu'), not ones of another array library"


class Solver(ABC):
    """Base class of the algorithms: settings and three pure functions that the loop calls.

    A solver is a frozen dataclass whose fields are its settings. It implements ``init``, ``step`` and ``estimate``;
    everything else has a working default.

    Attributes
    ----------
    name : str
        The name used by ``recover(method=...)`` and by the command line.
    needs : frozenset of Requirement
        What the solver requires. A problem that does not meet a requirement is rejected before anything is computed.
    takes : frozenset of Kind
        The kinds of sets A that the solver takes besides that of vectors with at most s nonzeros.
    uses_noise_norm : bool
        Whether the solver uses the noise level of the problem.
    criterion : str
        What the stopping criterion of a state measures, and its name in ``result.history``: "gap" for the distance
        between the two sets, "iterate_residual" for ||Phi x - y|| of the iterate (in the units of y; all others are in
        those of x), "change" (the default) for the change of x in a step, or another name.
    compiled : bool
        Whether the solver has compiled kernels. It is then run on a tiny problem before the clock starts.
    steps_at_once : int
        The number of steps that one call of ``steps`` takes on a CPU, if nothing is recorded or saved in between. The
        default is 1; more pay if what is computed in one step can be reused in the next.
    ends_by_itself : bool
        Whether every row settles without a tolerance and Phi and y need no scaling. Dictionary learning calls ``init``,
        ``steps`` and ``estimate`` of such a solver directly, because the loop around them takes as long as coding a
        small batch. The default is False.

    Examples
    --------
    Iterative hard thresholding with a fixed step as a solver of your own:

    >>> from dataclasses import dataclass, replace
    >>> import numpy as np
    >>> import sparsect
    >>> @dataclass(frozen=True, kw_only=True)
    ... class IHTState(sparsect.State):
    ...     x: np.ndarray
    >>> @dataclass(frozen=True)
    ... class IHT(sparsect.Solver):
    ...     name = "iht"
    ...     criterion = "iterate_residual"
    ...     mu: float = 0.3
    ...
    ...     def init(self, problem):
    ...         size = np.linalg.norm(problem.y, axis=1)
    ...         return IHTState(x=0 * problem.operator.adjoint(problem.y), criterion=size, scale=size)
    ...
    ...     def step(self, problem, state):
    ...         residual = problem.y - problem.operator.forward(state.x)
    ...         moved = state.x + self.mu * problem.operator.adjoint(residual)
    ...         x = sparsect.project_sparse(moved, problem.sparsity)
    ...         left = np.linalg.norm(problem.y - problem.operator.forward(x), axis=1)
    ...         return replace(state, x=x, criterion=left)
    ...
    ...     def estimate(self, problem, state):
    ...         return state.x
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=4, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=4, method=IHT())
    >>> int(result.support.sum())
    4
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Requirement]] = frozenset()
    takes: ClassVar[frozenset[Kind]] = frozenset()
    uses_noise_norm: ClassVar[bool] = False
    criterion: ClassVar[str] = "change"
    compiled: ClassVar[bool] = False
    steps_at_once: ClassVar[int] = 1
    ends_by_itself: ClassVar[bool] = False

    @abstractmethod
    def init(self, problem: Problem) -> Any:
        """Return the state before the first step.

        Parameters
        ----------
        problem : Problem
            The problem to solve.

        Returns
        -------
        State
            The initial state.
        """

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """Take one step in every row.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : State
            The current state, which is not modified.

        Returns
        -------
        State
            The state after the step.
        """

    @abstractmethod
    def estimate(self, problem: Problem, state: Any) -> Array:
        """Return the current solution.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : State
            The current state.

        Returns
        -------
        array, shape (batch, n)
            The solution, with at most ``problem.sparsity`` nonzeros in each row.
        """

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> Any:
        """Take several steps.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : State
            The current state.
        goal : array, shape (batch,)
            The criterion at which each row is finished. Rows that reach it take no further steps.
        fractions : sequence of float
            One number from 0 to 1 for each step: the fraction of the run's iterations or seconds that has passed before
            the step. It lets the schedule of a solver follow the budget.

        Returns
        -------
        State
            The state after the steps.
        """
        if len(fractions) == 1:
            return self.step(problem, state)
        for _ in fractions:
            state = kept_where_done(goal, state, self.step(problem, state))
        return state

    def answer(self, problem: Problem, state: Any) -> tuple[Array, dict[str, Array]]:
        """Return the current solution and what the solver knows about it.

        Parameters
        ----------
        problem : Problem
            The problem, restricted to the rows of ``state``.
        state : State
            The current state.

        Returns
        -------
        x : array, shape (batch, n)
            The solution.
        details : dict of str to array
            Attributes of :class:`Result` that describe it, such as ``inclusion_probability``, with one row for each
            signal; by default none.
        """
        return self.estimate(problem, state), {}

    def misfit(self, problem: Problem, x: Array) -> Array:
        """Return how far each x is from explaining the data.

        Parameters
        ----------
        problem : Problem
            The problem.
        x : array, shape (batch, n)
            Solutions.

        Returns
        -------
        array, shape (batch,)
            The norm of the residual, ||Phi x - y||.
        """
        return norm(problem.operator.forward(x) - problem.y)

    def further_vectors(self, sparsity: int) -> int:
        """Return how many vectors of length n a row needs on a GPU besides those that every solver needs.

        Parameters
        ----------
        sparsity : int
            The maximum number of nonzeros.

        Returns
        -------
        int
            The number, by default 0.
        """
        return 0

    @property
    def scale_free(self) -> bool:
        """Whether no setting depends on the units of Phi and y, so that the loop may normalize both."""
        return False

    @property
    def scales_columns(self) -> bool:
        """Whether the loop may bring the columns of Phi to one norm."""
        return True

    @property
    def fitted(self) -> bool:
        """Whether the estimate is the least-squares fit on its support, so that a refit would change nothing."""
        return False

    @property
    def approximates(self) -> bool:
        """Whether the solver aims at the best fit with s nonzeros, however large its residual."""
        return False

    @property
    def finds_sparsity(self) -> bool:
        """Whether estimates may have more than s nonzeros, because the solver determines their number."""
        return False


def check_solver(name: str, solver: Any) -> Solver:
    """Check that an argument is a solver.

    Parameters
    ----------
    name : str
        The name of the argument, for the error message.
    solver : Solver
        The value; a class instead of an instance is rejected, too.

    Returns
    -------
    Solver
        The solver itself.

    Raises
    ------
    InputError
        If it is anything else.
    """
    if not isinstance(solver, Solver):
        raise reject(name, shown(solver), "a name, or a configured solver such as DifferenceMap(beta=0.5)")
    return solver
