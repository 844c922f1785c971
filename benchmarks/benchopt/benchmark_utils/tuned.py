"""Solvers whose settings are chosen on training problems."""

import itertools
import warnings

import numpy as np
from benchopt import BaseSolver

from benchmark_utils.scores import largest, refitted, scores

# Penalties, as shares of the smallest one for which the answer is zero.
SHARES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)


class TunedSolver(BaseSolver):
    """A solver with settings.

    Columns of Phi have norm 1 for everybody. Before anything is timed, each of ``settings`` is tried on training
    problems of the same kind, with and without a least-squares fit on the s largest entries; the best mean SNR of x
    decides. The fit counts as time.
    """

    sampling_strategy = "run_once"
    settings = (None,)

    def code(self, Phi, y, sparsity, setting):
        """Return an answer for each row of y."""
        raise NotImplementedError

    def set_objective(self, Phi, y, sparsity, training):
        self.norms = np.linalg.norm(Phi, axis=0)
        self.Phi, self.y, self.sparsity = np.asfortranarray(Phi / self.norms), y, sparsity
        choices = list(itertools.product(self.settings, (False, True)))
        self.choice = max(choices, key=lambda choice: self.trial(training, choice))

    def trial(self, training, choice):
        Phi, x, y = training
        norms = np.linalg.norm(Phi, axis=0)
        answer = self.answer(np.asfortranarray(Phi / norms), y, choice) / norms
        return np.mean(scores(Phi, y, x, self.sparsity, answer)["snr_db"])

    def answer(self, Phi, y, choice):
        setting, refit = choice
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = self.code(Phi, y, self.sparsity, setting)
        return refitted(Phi, y, largest(x, self.sparsity)) if refit else x

    def warm_up(self):
        self.answer(self.Phi, self.y[:1], self.choice)

    def run(self, _):
        self.x = self.answer(self.Phi, self.y, self.choice) / self.norms

    def get_result(self):
        return {"x": self.x}


def penalties(Phi, y, share):
    """Return for each row of y this share of the penalty of 1/2 ||Phi x - y||^2 from which x = 0 is best."""
    return share * np.max(np.abs(y @ Phi), axis=1)
