"""
Without a matrix: PyLops
========================

A sound from a seventh of its samples. Phi is a PyLops operator; only its products with vectors are used.
"""

import matplotlib.pyplot as plt
import numpy as np
import pylops

import sparsect

# %%
# The sound consists of 80 of 4,096 cosines. 600 of its samples, at random times, are kept. Phi synthesizes a sound from
# its coefficients and takes these samples; as a matrix, it would have 2.5 million entries.

n, count = 4096, 80
rng = np.random.default_rng(0)
kept = np.sort(rng.choice(n, 600, replace=False))
synthesis = pylops.signalprocessing.DCT(n).H
Phi = pylops.Restriction(n, kept) @ synthesis

coefficients = np.zeros(n)
coefficients[rng.choice(n // 4, count, replace=False)] = rng.standard_normal(count)
sound = synthesis @ coefficients
samples = sound[kept] + 0.1 * sound.std() * rng.standard_normal(kept.size)  # noise 20 dB below the sound

# %%
# For a general operator, projections onto the data set are computed by conjugate gradients. Rows of an orthonormal
# transform are a tight frame, Phi Phi^T = I; if ``recover`` is told so, a projection takes two products.

general = sparsect.recover(Phi, samples, sparsity=count)
tight = sparsect.recover(sparsect.MatrixFree(Phi, frame_bound=1.0), samples, sparsity=count)
for name, result in (("general", general), ("tight frame", tight)):
    print(f"{name}: SNR {sparsect.snr_db(coefficients, result.x):.1f} dB, {result.seconds:.2f} s")

# %%
# A short part of the sound, and its spectrum.

figure, axes = plt.subplots(2, 1, figsize=(9, 5.4), layout="constrained")
part = slice(1000, 1150)
there = (kept >= part.start) & (kept < part.stop)
axes[0].plot(np.arange(n)[part], sound[part], color="C1", linewidth=4, alpha=0.5, label="truth")
axes[0].plot(np.arange(n)[part], (synthesis @ tight.x)[part], color="C0", linewidth=1.2, label="recovered")
axes[0].plot(kept[there], samples[there], "ko", markersize=4, label="samples")
axes[0].set(xlabel="time")
axes[0].legend(ncols=3, loc="upper right")
present = coefficients != 0
axes[1].vlines(np.flatnonzero(present), 0, coefficients[present], color="C1", linewidth=3, alpha=0.5)
axes[1].vlines(np.flatnonzero(tight.support), 0, tight.x[tight.support], color="C0", linewidth=1)
axes[1].set(xlabel="frequency", xlim=(0, n // 4))
plt.show()
