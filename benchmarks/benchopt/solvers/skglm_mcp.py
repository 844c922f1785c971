import itertools

import numpy as np
from benchmark_utils.tuned import TunedSolver
from skglm.datafits import Quadratic
from skglm.penalties import MCPenalty
from skglm.solvers import AndersonCD


class Solver(TunedSolver):
    """The minimax concave penalty of skglm.

    Twenty penalties, each started from the answer to the one before. Chosen: how small the last penalty is, the
    concavity (1,000 is almost the lasso, which coherent columns need), and whether to stop once there are s nonzeros.
    """

    name = "skglm MCP"
    requirements = ["pip::skglm"]
    settings = tuple(itertools.product((0.1, 0.01, 0.001), (1.5, 3.0, 30.0, 1000.0), (True, False)))

    def code(self, Phi, y, sparsity, setting):
        return np.array([self.path(Phi * len(Phi) ** 0.5, row, sparsity, *setting) for row in y])

    def path(self, Phi, y, sparsity, smallest, gamma, stops):
        # Tolerances and concavities are meant for columns and data of norm sqrt(m).
        m, n = Phi.shape
        scale = np.linalg.norm(y) / m**0.5
        solver, x = AndersonCD(fit_intercept=False, tol=1e-6), np.zeros(n)
        for alpha in np.max(np.abs(Phi.T @ y)) / scale / m * np.geomspace(0.95, smallest, 20):
            x = solver.solve(Phi, y / scale, Quadratic(), MCPenalty(alpha, gamma), x, Phi @ x)[0]
            if stops and np.count_nonzero(x) >= sparsity:
                break
        return x * scale * m**0.5
