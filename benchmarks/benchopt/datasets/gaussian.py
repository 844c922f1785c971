import numpy as np
from benchmark_utils.problems import data, measured, spikes
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Independent normal entries."""

    name = "Gaussian"
    parameters = {
        "m, n": [(256, 1024)],
        "sparsity, snr_db": [(32, 10), (48, 25), (64, 20), (80, None)],
        "problems": [10],
    }
    test_parameters = {"m, n": [(60, 120)], "sparsity, snr_db": [(6, 20)], "problems": [2]}

    def get_data(self):
        m, n = self.m, self.n

        def draw(rng, problems):
            Phi = rng.standard_normal((m, n)) / np.sqrt(m)
            x = spikes(rng, problems, n, self.sparsity)
            return Phi, x, measured(Phi, x, self.snr_db, rng)

        return data(draw, self.sparsity, self.get_seed(use_repetition=True), self.problems)
