"""
Nonnegative signals
===================

Concentrations, intensities and counts are never negative. Telling ``recover`` so makes up for missing measurements.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import nnls

import sparsect
from sparsect import sets

# %%
# 100 noisy measurements of 300 unknowns, 20 signals for each number of nonzeros, all of them positive.

m, n, batch = 100, 300, 20
sizes = [5, 10, 15, 20, 25, 30, 35, 40]
names = ("positive nonzeros", "nonzeros of any sign", "nonnegative least squares")
quality = {name: [] for name in names}
for s in sizes:
    problem = sparsect.random_problem(m, n, s, batch=batch, rng=s)
    x = np.abs(problem.x)
    y = x @ problem.Phi.T
    noise = np.random.default_rng(s).standard_normal(y.shape)
    y += 0.1 * noise * np.linalg.norm(y, axis=1, keepdims=True) / np.linalg.norm(noise, axis=1, keepdims=True)
    positive = sparsect.recover(problem.Phi, y, sets.Sparse(s, nonnegative=True)).x
    estimates = positive, sparsect.recover(problem.Phi, y, s).x, np.stack([nnls(problem.Phi, row)[0] for row in y])
    for name, estimate in zip(names, estimates, strict=True):
        quality[name].append(np.mean(sparsect.snr_db(x, estimate)))

# %%
# With few nonzeros, the data determine the signs anyway. The more there are, the more the constraint is worth.

figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
for (name, values), style in zip(quality.items(), ("o-", "s--", "^:"), strict=True):
    axis.plot(sizes, values, style, label=name)
axis.set(xlabel="number of nonzeros", ylabel="mean SNR of x in dB")
axis.legend()
plt.show()
