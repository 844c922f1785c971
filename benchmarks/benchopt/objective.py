import numpy as np
from benchmark_utils.scores import scores
from benchopt import BaseObjective


class Objective(BaseObjective):
    """How near the truth is an answer with s nonzeros?

    Answers are cut to their s largest entries, in units in which all columns of Phi have norm 1.
    """

    name = "Sparse recovery with known truth"
    min_benchopt_version = "1.10"
    sampling_strategy = "run_once"
    test_config = {"dataset": {"name": "Gaussian", "m": 60, "n": 120, "sparsity": 6, "snr_db": 20, "problems": 2}}

    def set_data(self, Phi, y, x, sparsity, training):
        self.Phi, self.y, self.x, self.sparsity, self.training = Phi, y, x, sparsity, training

    def skip(self, Phi, **data):
        return (True, "its file is not given") if Phi is None else (False, None)

    def get_objective(self):
        return {"Phi": self.Phi, "y": self.y, "sparsity": self.sparsity, "training": self.training}

    def evaluate_result(self, x):
        return {
            name: float(np.mean(values)) for name, values in scores(self.Phi, self.y, self.x, self.sparsity, x).items()
        }

    def get_one_result(self):
        return {"x": np.zeros_like(self.x)}
