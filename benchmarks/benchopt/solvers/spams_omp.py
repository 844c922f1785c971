import numpy as np
import spams
from benchmark_utils.tuned import TunedSolver


class Solver(TunedSolver):
    """Order-recursive matching pursuit of SPAMS; it has nothing to choose."""

    name = "SPAMS OMP"
    requirements = ["pip::spams-bin"]

    def code(self, Phi, y, sparsity, setting):
        return spams.omp(np.asfortranarray(y.T), Phi, L=sparsity, eps=0.0, numThreads=1).toarray().T
