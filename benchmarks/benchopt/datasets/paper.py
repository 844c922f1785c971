import numpy as np
from benchmark_utils.problems import data, measured, spikes
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Random measurements of section 3 of the paper: 400x1000, columns of zero mean and unit norm, noise at 20 dB."""

    name = "Paper"
    parameters = {"sparsity": [50, 100, 150], "problems": [10]}
    test_parameters = {"sparsity": [20], "problems": [2]}

    def get_data(self):
        def draw(rng, problems):
            Phi = rng.standard_normal((400, 1000))
            Phi -= Phi.mean(axis=0)
            Phi /= np.linalg.norm(Phi, axis=0)
            x = spikes(rng, problems, 1000, self.sparsity)
            return Phi, x, measured(Phi, x, 20, rng)

        return data(draw, self.sparsity, self.get_seed(use_repetition=True), self.problems)
