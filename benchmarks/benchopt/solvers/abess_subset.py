import numpy as np
from abess.linear import LinearRegression
from benchmark_utils.tuned import TunedSolver


class Solver(TunedSolver):
    """Best subsets of abess.

    Chosen: only s features at once, or all sizes up to s, each started from the one before. Its threshold for
    exchanges expects large numbers, so that y has norm 1,000.
    """

    name = "abess"
    requirements = ["pip::abess"]
    settings = ("s", "path")

    def code(self, Phi, y, sparsity, setting):
        sizes = sparsity if setting == "s" else range(1, sparsity + 1)
        model = LinearRegression(support_size=sizes, fit_intercept=False, ic_type="aic", ic_coef=0.0)
        scales = np.linalg.norm(y, axis=1) / 1e3
        return np.array([scale * model.fit(Phi, row / scale).coef_ for row, scale in zip(y, scales, strict=True)])
