import numpy as np
import pylops
import pyproximal
from benchmark_utils.tuned import TunedSolver
from pyproximal.optimization.primal import ProximalGradient


class Solver(TunedSolver):
    """Proximal gradients of PyProximal with at most s nonzeros, 500 iterations; step and acceleration are chosen."""

    name = "PyProximal L0"
    requirements = ["pip::pyproximal"]
    settings = tuple((step, kind) for step in (0.5, 0.95, 1.9) for kind in (None, "fista"))

    def code(self, Phi, y, sparsity, setting):
        step, acceleration = setting
        tau, ball = step / np.linalg.norm(Phi, 2) ** 2, pyproximal.L0Ball(sparsity)
        answers = []
        for row in y:
            fit = pyproximal.L2(Op=pylops.MatrixMult(Phi), b=row)
            start = np.zeros(Phi.shape[1])
            answers.append(ProximalGradient(fit, ball, start, tau=tau, niter=500, acceleration=acceleration))
        return np.array(answers)
