"""
The number of nonzeros is not known
===================================

``sparsity="auto"`` finds it together with x.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# Signals with 5 to 60 nonzeros, each measured 150 times with three levels of noise.

counts = np.arange(5, 65, 5)
found = {}
for snr_db in (30, 20, 10):
    found[snr_db] = []
    for s in counts:
        problem = sparsect.random_problem(m=150, n=300, sparsity=s, snr_db=snr_db, batch=4, rng=[snr_db, s])
        result = sparsect.recover(problem.Phi, problem.y, sparsity="auto")
        found[snr_db].append(result.support.sum(axis=1))

# %%
# With weak noise the number is right to within a few. With strong noise it scatters, because small entries can no
# longer be told from zero.

figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
axis.axline((0, 0), slope=1, color="0.8", zorder=0)
for shift, (snr_db, number) in zip((-0.8, 0, 0.8), found.items(), strict=True):
    number = np.array(number)
    low, middle, high = number.min(axis=1), np.median(number, axis=1), number.max(axis=1)
    axis.errorbar(counts + shift, middle, (middle - low, high - middle), fmt="o", capsize=3, label=f"{snr_db} dB")
axis.set(xlabel="true number of nonzeros", ylabel="number found: median and range of four", ylim=(0, None))
axis.legend(title="noise")

# %%
# If the norm of the noise is known, the smallest number that fits within it is found instead.

problem = sparsect.random_problem(m=150, n=300, sparsity=20, snr_db=20, rng=1)
for options in ({}, {"noise_norm": problem.noise_norm}):
    result = sparsect.recover(problem.Phi, problem.y, sparsity="auto", **options)
    print(f"{int(result.support.sum())} nonzeros, SNR {sparsect.snr_db(problem.x, result.x)[0]:.1f} dB")
plt.show()
