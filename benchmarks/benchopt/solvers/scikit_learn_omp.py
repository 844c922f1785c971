from benchmark_utils.tuned import TunedSolver
from sklearn.linear_model import orthogonal_mp


class Solver(TunedSolver):
    """Orthogonal matching pursuit of scikit-learn; it has nothing to choose."""

    name = "scikit-learn OMP"
    requirements = ["pip::scikit-learn"]

    def code(self, Phi, y, sparsity, setting):
        return orthogonal_mp(Phi, y.T, n_nonzero_coefs=sparsity, precompute=True).reshape(Phi.shape[1], -1).T
