"""The paper's formulas transcribed word for word: slow, obvious, and independent of the package."""

import numpy as np


def threshold(x, s):
    """[x]_s for one real or complex vector, ties to the first entries."""
    kept = np.argsort(-np.abs(x), kind="stable")[:s]
    out = np.zeros_like(x)
    out[kept] = x[kept]
    return out


def affine(Phi, y, rank_tol=1e-12):
    inverse = np.linalg.pinv(Phi, rcond=rank_tol)
    return lambda x: x - inverse @ (Phi @ x - y)


def relaxed(Phi, y, alpha):
    middle = np.linalg.inv(Phi @ Phi.conj().T + alpha * np.eye(len(y)))
    return lambda x: x - Phi.conj().T @ middle @ (Phi @ x - y)


def ball(Phi, y, radius):
    """Nearest point of the ball by bisection on the multiplier, with plain linear solves."""
    n = Phi.shape[1]

    def point(x, nu):
        return np.linalg.solve(np.eye(n) + nu * Phi.conj().T @ Phi, x + nu * Phi.conj().T @ y)

    def project(x):
        if np.linalg.norm(Phi @ x - y) <= radius:
            return x
        low, high = 0.0, 1.0
        while np.linalg.norm(Phi @ point(x, high) - y) > radius:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            if np.linalg.norm(Phi @ point(x, middle) - y) > radius:
                low = middle
            else:
                high = middle
        return point(x, high)

    return project


def difference_map(x, P_A, P_B, beta):
    """D(x) of the paper, and the norm of the difference it is named for."""
    f_A = P_A(x) - (P_A(x) - x) / beta
    f_B = P_B(x) + (P_B(x) - x) / beta
    difference = P_A(f_B) - P_B(f_A)
    return x + beta * difference, np.linalg.norm(difference)
