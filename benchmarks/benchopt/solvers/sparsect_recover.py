import warnings

from benchopt import BaseSolver

import sparsect


class Solver(BaseSolver):
    """``sparsect.recover`` as it comes; the default has no settings, so the training problems are not used."""

    name = "sparsect"
    requirements = ["pip::sparsect"]
    parameters = {"method": ["auto", "ormp", "vamp"]}
    test_config = {"method": "auto"}
    sampling_strategy = "run_once"

    def set_objective(self, Phi, y, sparsity, training):
        self.Phi, self.y, self.sparsity = Phi, y, sparsity

    def solve(self, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return sparsect.recover(self.Phi, y, self.sparsity, self.method, record=()).x

    def warm_up(self):
        self.solve(self.y[:1])

    def run(self, _):
        self.x = self.solve(self.y)

    def get_result(self):
        return {"x": self.x}
