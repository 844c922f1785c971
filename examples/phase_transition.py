"""
Phase transition
================

How many nonzeros can be recovered from how many measurements? Recovery changes from almost always to almost never
within a few nonzeros, and where it does so depends on the method.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# Without noise, a problem counts as solved if x is found to 60 dB. Each cell holds five random problems with 200
# unknowns; ``recover`` solves them as one batch.

n, trials = 200, 5
measurements = np.linspace(0.1, 0.8, 8)  # m / n
densities = np.linspace(0.1, 0.8, 15)  # s / m
methods = {"default": "auto", "l1 (least angle regression)": "lars", "orthogonal matching pursuit": "omp"}


def solved(method, m, s):
    problem = sparsect.random_problem(m, n, s, batch=trials, rng=[m, s])
    result = sparsect.recover(problem.Phi, problem.y, s, method, max_iter=400, check_fit=False)
    return np.mean(sparsect.snr_db(problem.x, result.x) > 60)


grids = {
    name: [[solved(method, round(n * a), max(1, round(n * a * b))) for a in measurements] for b in densities]
    for name, method in methods.items()
}

# %%
# Bright cells are solved. The default reaches as far as Bayes-optimal message passing does; larger problems with finer
# steps are in the `results of the benchmarks <../../benchmarks/results/conditions.html>`_.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), sharex=True, sharey=True, layout="constrained")
for axis, (name, grid) in zip(axes, grids.items(), strict=True):
    picture = axis.pcolormesh(measurements, densities, grid, vmin=0, vmax=1, shading="nearest")
    axis.set(title=name, xlabel="measurements per unknown, m / n")
axes[0].set_ylabel("nonzeros per measurement, s / m")
figure.colorbar(picture, ax=axes, label="fraction recovered")
plt.show()
