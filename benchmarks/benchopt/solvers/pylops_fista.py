import numpy as np
import pylops
from benchmark_utils.tuned import SHARES, TunedSolver, penalties
from pylops.optimization.sparsity import fista


class Solver(TunedSolver):
    """FISTA of PyLops, up to 3,000 iterations; the penalty is chosen."""

    name = "PyLops FISTA"
    requirements = ["pip::pylops"]
    settings = SHARES

    def code(self, Phi, y, sparsity, setting):
        operator, step = pylops.MatrixMult(Phi), 1 / np.linalg.norm(Phi, 2) ** 2
        # PyLops minimizes the squared residual plus eps times the l1 norm, without a factor 1/2.
        pairs = zip(y, 2 * penalties(Phi, y, setting), strict=True)
        return np.array([fista(operator, row, niter=3000, eps=eps, alpha=step, tol=1e-6)[0] for row, eps in pairs])
