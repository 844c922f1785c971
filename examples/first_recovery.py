"""
A first recovery
================

Find 150 nonzeros among 1,000 unknowns from 400 noisy measurements.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# Random measurements as in the paper: 400 equations for 1,000 unknowns, of which 150 are not zero. The noise is 20 dB
# below the signal. ``recover`` needs the matrix, the data and the number of nonzeros.

problem = sparsect.random_problem(m=400, n=1000, sparsity=150, snr_db=20, rng=0)
result = sparsect.recover(problem.Phi, problem.y, sparsity=150)
result

# %%
# The same problem by orthogonal matching pursuit and by the lasso, each with least squares on its support.

methods = {"default": {}, "OMP": {"method": "omp"}, "lasso, refitted": {"method": "lars", "refit": True}}
estimates = {name: sparsect.recover(problem.Phi, problem.y, 150, **options).x[0] for name, options in methods.items()}
truth = problem.x[0]

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, x) in zip(axes, estimates.items(), strict=True):
    axis.axline((0, 0), slope=1, color="0.8", zorder=0)
    axis.plot(truth, x, ".", alpha=0.6)
    axis.set(title=f"{name}: {sparsect.snr_db(truth, x):.1f} dB", xlabel="true entry of x", aspect="equal")
axes[0].set_ylabel("estimate")

# %%
# The default also says how sure it is: each entry has a posterior probability of being nonzero. Large entries are
# certain; small ones cannot be told from zero at this level of noise.

probability = result.inclusion_probability[0]
present = truth != 0
figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
axis.plot(np.abs(truth[present]), probability[present], ".", label="true nonzeros")
axis.plot(np.abs(result.x[0][~present]), probability[~present], ".", alpha=0.4, label="true zeros, as estimated")
axis.set(xlabel="magnitude", ylabel="probability of being nonzero", xlim=(-0.05, 2.5))
axis.legend()
plt.show()
