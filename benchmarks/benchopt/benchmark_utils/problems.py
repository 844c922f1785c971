"""What a dataset gives: problems to solve, and others of the same kind on which settings are chosen."""

import numpy as np

TRAINING = 1


def data(draw, sparsity, rng, problems):
    """Return the data of a dataset.

    Parameters
    ----------
    draw : callable
        Returns Phi and that many signals x, one in each row, and y: ``draw(rng, problems)``.
    sparsity : int
        The number of nonzeros.
    rng : int
        What the problems are drawn from.
    problems : int
        Number of problems; there are as many for training, with another Phi if Phi is random.
    """
    Phi, x, y = draw(np.random.default_rng(rng), problems)
    training = draw(np.random.default_rng([rng, TRAINING]), problems)
    return {"Phi": Phi, "x": x, "y": y, "sparsity": sparsity, "training": training}


def spikes(rng, problems, n, sparsity, values=None):
    """Return signals with ``sparsity`` entries at random places: normal ones, or ``values(size)``."""
    x = np.zeros((problems, n))
    for row in x:
        row[rng.permutation(n)[:sparsity]] = (values or rng.standard_normal)(sparsity)
    return x


def measured(Phi, x, snr_db, rng):
    """Return y = Phi x with white noise of exactly this signal-to-noise ratio; None for no noise."""
    y = x @ Phi.T
    if snr_db is None:
        return y
    noise = rng.standard_normal(y.shape)
    return y + noise * (np.linalg.norm(y, axis=1) / np.linalg.norm(noise, axis=1) * 10 ** (-snr_db / 20))[:, None]
