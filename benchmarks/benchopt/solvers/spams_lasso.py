import numpy as np
import spams
from benchmark_utils.tuned import SHARES, TunedSolver, penalties


class Solver(TunedSolver):
    """The lasso of SPAMS, by least angle regression; the penalty is chosen."""

    name = "SPAMS lasso"
    requirements = ["pip::spams-bin"]
    settings = SHARES

    def code(self, Phi, y, sparsity, setting):
        columns = (np.asfortranarray(row[:, None]) for row in y)
        pairs = zip(columns, penalties(Phi, y, setting), strict=True)
        return np.array(
            [spams.lasso(column, Phi, lambda1=share, numThreads=1).toarray()[:, 0] for column, share in pairs]
        )
