"""How good answers are."""

import numpy as np

# Exact answers count as this many decibels.
EXACT = 100.0


def largest(x, sparsity):
    """Return x with all but the ``sparsity`` largest entries of each row set to zero."""
    places = np.argpartition(-np.abs(x), sparsity - 1, axis=1)[:, :sparsity]
    cut = np.zeros_like(x)
    np.put_along_axis(cut, places, np.take_along_axis(x, places, axis=1), axis=1)
    return cut


def refitted(Phi, y, x):
    """Return x with the nonzeros of each row replaced by a least-squares fit on them."""
    fit = np.zeros_like(x)
    for row, data, answer in zip(fit, y, x, strict=True):
        places = np.flatnonzero(answer)
        row[places] = np.linalg.lstsq(Phi[:, places], data, rcond=None)[0]
    return fit


def scores(Phi, y, truth, sparsity, x):
    """Return the scores of each row by name: residual at s, SNR of x in dB, F1 of the support."""
    norms = np.linalg.norm(Phi, axis=0)
    cut = largest(np.where(np.isfinite(x), x, 0.0) * norms, sparsity)
    scaled = truth * norms
    residual = np.linalg.norm(cut @ (Phi / norms).T - y, axis=1) / np.linalg.norm(y, axis=1)
    error = np.linalg.norm(cut - scaled, axis=1) / np.linalg.norm(scaled, axis=1)
    found, wanted = cut != 0, truth != 0
    common = np.sum(found & wanted, axis=1)
    return {
        "residual": residual,
        "snr_db": -20 * np.log10(np.maximum(error, 10 ** (-EXACT / 20))),
        "f1": 2 * common / np.maximum(found.sum(axis=1) + wanted.sum(axis=1), 1),
    }
