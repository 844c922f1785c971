import numpy as np
from benchmark_utils.tuned import SHARES, TunedSolver, penalties
from sporco.admm.bpdn import BPDN


class Solver(TunedSolver):
    """Basis pursuit denoising of SPORCO, by ADMM with its own choice of rho; the penalty is chosen."""

    name = "SPORCO BPDN"
    requirements = ["pip::sporco"]
    settings = SHARES

    def code(self, Phi, y, sparsity, setting):
        options = BPDN.Options({"Verbose": False, "MaxMainIter": 500, "RelStopTol": 1e-4, "AutoRho": {"Enabled": True}})
        pairs = zip(y, penalties(Phi, y, setting), strict=True)
        return np.array([np.asarray(BPDN(Phi, row[:, None], share, options).solve())[:, 0] for row, share in pairs])
