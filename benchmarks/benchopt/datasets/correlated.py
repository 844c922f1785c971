import numpy as np
from benchmark_utils.problems import data, measured, spikes
from benchopt import BaseDataset
from scipy.signal import lfilter


class Dataset(BaseDataset):
    """Rows are autoregressive processes: the correlation of two columns is rho to the power of their distance."""

    name = "Correlated"
    parameters = {"m, n": [(200, 1000)], "rho, sparsity, snr_db": [(0.9, 20, 20), (0.99, 10, 30)], "problems": [10]}
    test_parameters = {"m, n": [(60, 120)], "rho, sparsity, snr_db": [(0.9, 4, 30)], "problems": [2]}

    def get_data(self):
        m, n = self.m, self.n

        def draw(rng, problems):
            steps = rng.standard_normal((m, n)) * np.sqrt(1 - self.rho**2)
            steps[:, 0] /= np.sqrt(1 - self.rho**2)
            Phi = lfilter([1.0], [1.0, -self.rho], steps, axis=1)
            Phi /= np.linalg.norm(Phi, axis=0)
            x = spikes(rng, problems, n, self.sparsity)
            return Phi, x, measured(Phi, x, self.snr_db, rng)

        return data(draw, self.sparsity, self.get_seed(use_repetition=True), self.problems)
