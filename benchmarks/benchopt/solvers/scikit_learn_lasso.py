import numpy as np
from benchmark_utils.tuned import SHARES, TunedSolver, penalties
from sklearn.linear_model import Lasso


class Solver(TunedSolver):
    """The lasso of scikit-learn; the penalty is chosen."""

    name = "scikit-learn Lasso"
    requirements = ["pip::scikit-learn"]
    settings = SHARES

    def code(self, Phi, y, sparsity, setting):
        alphas = penalties(Phi, y, setting) / len(Phi)
        models = (Lasso(alpha, fit_intercept=False, tol=1e-5, max_iter=3000) for alpha in alphas)
        return np.array([model.fit(Phi, row).coef_ for model, row in zip(models, y, strict=True)])
