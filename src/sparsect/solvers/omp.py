"""Orthogonal matching pursuit, textbook (Pati et al. 1993) and order-recursive (Gharavi-Alkhansari and Huang 1998)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..backend.arrays import Array, FloatArray, contiguous, epsilon, is_numpy, is_single, namespace
from ..backend.checks import within
from ..backend.norms import squared_norm
from ..kernels.thresholding import Kind
from ..problems import Problem
from . import batch_pursuit, unit_pursuit
from .base import Requirement, Solver, State, kept_where_done

# A unit column whose squared distance to the span of the selected columns is below this counts as linearly dependent:
# products of columns in double precision cannot resolve smaller distances.
DEPENDENT = 1e-10
# Once a column that keeps less than this part of its squared norm is met, a row is factorized in double precision.
NEARLY_DEPENDENT = 1e-3
# The squared norm of a residual has rounding errors of at most this many units of ||y||^2; it is measured instead where
# it is below ten times that.
ROUNDING, MEASURED = 10, 10
# A fit is complete if its residual has at most these correlations with the selected columns (y and columns at unit
# norm), in double and in single precision. Above the last number, it has failed.
FITTED, UNFITTED = (1e-12, 1e-9), 1e-6


@dataclass(frozen=True, kw_only=True)
class PursuitState(State):
    """The state of the matching pursuits; ``kernels/pursuit.py`` gives the details.

    R and order only grow at the end. The energy is in double precision, whatever the dtype of the data.

    Attributes
    ----------
    correlation : array, shape (batch, n)
        The correlations of the columns with the residual.
    freedom : array, shape (batch, n)
        The squared norm of the part of each column that is orthogonal to the selected ones.
    R : array, shape (batch, s (s + 1) / 2)
        The upper triangular factor of the selected columns, one column after the other.
    order : array of int, shape (batch, s)
        The selected columns, in order.
    energy : array, shape (batch,)
        The squared norm of the residual.
    goal : array, shape (batch,)
        The squared norm of the residual at which a row stops.
    """

    correlation: Array
    freedom: Array
    R: Array
    order: Array
    energy: Array
    goal: Array
    taken: Array

    def check(self, problem: Problem) -> None:
        """Check that the selected columns exist."""
        within("taken", self.taken, 0, problem.sparsity)
        within("order", self.order, 0, problem.operator.shape[1] - 1)


@dataclass(frozen=True)
class OrthogonalMatchingPursuit(Solver):
    """Orthogonal matching pursuit (OMP).

    Each iteration selects the column with the largest correlation with the residual, and fits y by least squares on all
    selected columns [1]_. A row settles after s selections, when its residual is at most ``noise_norm`` (if given),
    when its remaining correlations are rounding errors, or when no linearly independent column is left. The stopping
    criterion is the norm of the residual.

    Notes
    -----
    Rows run on all cores with a common Gram matrix, and correlations are updated, not recomputed
    (``kernels/pursuit.py``).

    References
    ----------
    .. [1] Y. C. Pati, R. Rezaiifar and P. S. Krishnaprasad, "Orthogonal matching pursuit: recursive function
       approximation with applications to wavelet decomposition", Asilomar Conference on Signals, Systems and Computers,
       1993.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.OrthogonalMatchingPursuit())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "omp"
    takes: ClassVar[frozenset[Kind]] = frozenset({Kind.BOUNDS, Kind.GROUPS})
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE, Requirement.HOST})
    scale_free = True
    criterion: ClassVar[str] = "iterate_residual"
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 10_000
    ends_by_itself: ClassVar[bool] = True
    fitted = True
    follow_freedom: ClassVar[bool] = False

    def init(self, problem: Problem) -> State:
        """Start without columns."""
        if not problem.structure.plain:
            return unit_pursuit.start(problem)
        if not is_numpy(namespace(problem.y)):
            return batch_pursuit.start(problem)
        operator, s, batch = problem.operator, problem.sparsity, problem.batch
        gram, exact = operator.gram_matrix, operator.double_gram_matrix
        correlation = operator.adjoint(problem.y)
        energy = squared_norm(problem.y.astype(exact.dtype, copy=False))
        goal = np.zeros(batch) if problem.noise_norm is None else problem.noise_norm.astype(np.float64) ** 2
        count = np.zeros(batch, dtype=np.int64)
        return PursuitState(
            correlation=correlation,
            freedom=np.tile(np.diag(gram).real, (batch, 1)),
            R=np.zeros((batch, s * (s + 1) // 2), dtype=gram.dtype),
            order=np.zeros((batch, s), dtype=np.int64),
            energy=energy,
            goal=goal,
            criterion=np.sqrt(energy).astype(problem.y.real.dtype),
            scale=np.sqrt(energy).astype(problem.y.real.dtype),
            settled=(energy <= goal) | (s == 0),
            taken=count,
        )

    def step(self, problem: Problem, state: Any) -> Any:
        """Select one column in every row."""
        return self.steps(problem, state, np.zeros(problem.batch), [0.0])

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> Any:
        """Select one column for each of ``fractions``, until the residual is at most ``goal``."""
        if isinstance(state, unit_pursuit.UnitPursuitState):
            for _ in fractions:
                state = kept_where_done(goal, state, unit_pursuit.select_unit(problem, state, self.follow_freedom))
                if (state.settled | (state.criterion <= goal)).all():
                    break
            return state
        if isinstance(state, batch_pursuit.BatchPursuitState):
            return batch_pursuit.select(problem, state, goal, len(fractions))
        from ..backend.parallel import over_rows
        from ..kernels import pursuit

        operator, batch = problem.operator, problem.batch
        gram, exact = operator.gram_matrix, operator.double_gram_matrix
        count = len(fractions)
        limit = min(problem.sparsity, int(state.taken.max(initial=0)) + count)
        correlation, freedom, energy, taken = (
            array.copy() for array in (state.correlation, state.freedom, state.energy, state.taken)
        )
        dependent = max(operator.rank_tol**2, DEPENDENT)
        scale = state.scale.astype(np.float64)
        # The remaining correlations of an exactly sparse signal are rounding errors, which must not select columns.
        quiet = (50 * epsilon(gram) * scale) ** 2
        margin = ROUNDING * epsilon(gram) * scale**2
        enough = np.maximum(state.goal, np.maximum(goal, 0) ** 2)
        careful, going = np.zeros(batch, dtype=bool), True
        while going:
            before = taken.copy()
            over_rows(
                pursuit.select, batch, limit, dependent, NEARLY_DEPENDENT, self.follow_freedom, gram, exact,
                correlation, freedom, state.R, state.order, taken, energy, enough, margin, quiet, careful,
                work=count * (limit + 4) * gram.shape[0],
            )  # fmt: skip
            # The energy, kept by differences of squares, is measured where rounding errors are a large part of it.
            rows = np.flatnonzero((taken > before) & (careful | (energy < MEASURED * margin)))
            if rows.size:
                part = cast(PursuitState, dataclasses.replace(state, taken=taken).take(rows))
                energy[rows] = self._fit(problem.take(rows), part)[1]
            going = bool(((taken > before) & (taken < limit) & (energy > enough)).any())
        return dataclasses.replace(
            state,
            correlation=correlation,
            freedom=freedom,
            energy=energy,
            taken=taken,
            criterion=np.sqrt(np.maximum(energy, 0)).astype(state.criterion.dtype),
            settled=(taken < limit) | (taken >= problem.sparsity) | (energy <= state.goal),
        )

    def estimate(self, problem: Problem, state: Any) -> Array:
        """Return the least-squares fit on the selected columns."""
        if isinstance(state, unit_pursuit.UnitPursuitState):
            return state.x
        if isinstance(state, batch_pursuit.BatchPursuitState):
            return batch_pursuit.fitted(problem, state)
        return self._fit(problem, state)[0]

    def _fit(self, problem: Problem, state: PursuitState) -> tuple[Array, Array]:
        """Return the least-squares fit on the selected columns, and the squared norm of its residual."""
        from ..backend.parallel import over_rows
        from ..kernels import pursuit

        operator, y, s = problem.operator, contiguous(problem.y), problem.sparsity
        gram, exact, columns = operator.gram_matrix, operator.double_gram_matrix, operator.columns
        x, energy, slant = np.zeros_like(state.correlation), np.empty(problem.batch), np.empty(problem.batch)
        over_rows(
            pursuit.coefficients, problem.batch, NEARLY_DEPENDENT, FITTED[is_single(y)], gram, exact, columns, y,
            state.order, state.taken, x, energy, slant, work=s * (s * s / 3 + 4 * columns.shape[1]),
        )  # fmt: skip
        for row in np.flatnonzero(~(slant <= UNFITTED)):
            # The columns are nearly dependent jointly, although each one is far enough from the previous ones. Products
            # of columns do not resolve this; singular values do.
            places = state.order[row, : state.taken[row]]
            chosen = columns[places].T.astype(exact.dtype)
            z, *_ = np.linalg.lstsq(chosen, y[row].astype(exact.dtype), rcond=problem.operator.rank_tol)
            x[row, places] = z
            energy[row] = squared_norm(chosen @ z - y[row])
        return x, energy


@dataclass(frozen=True)
class OrderRecursiveMatchingPursuit(OrthogonalMatchingPursuit):
    """Order-recursive matching pursuit, also known as orthogonal least squares (OLS).

    Each iteration selects the column that leaves the smallest residual after the fit [1]_; SPAMS calls this method
    ``omp``. Correlations are computed with the part of each column that is orthogonal to the selected ones, so that the
    selection differs from that of textbook OMP, and is better. On a GPU, all rows run at once
    (``solvers/batch_pursuit.py``).

    References
    ----------
    .. [1] M. Gharavi-Alkhansari and T. S. Huang, "A fast orthogonal matching pursuit algorithm",
       ICASSP 1998.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.OrderRecursiveMatchingPursuit())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "ormp"
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE})
    follow_freedom: ClassVar[bool] = True

    def further_vectors(self, sparsity: int) -> int:
        """Return the number of products of Phi that are stored for each row, and copied where rows are done."""
        return 3 * sparsity
