"""
A set of your own: phase retrieval
==================================

The data need not be linear in x. Here only the magnitudes of the Fourier transform are known, as in diffraction.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# All that the Difference Map needs is the nearest point with the measured magnitudes: keep the phases, replace the
# magnitudes.


class FourierModulus:
    def project(self, x, y):
        return np.fft.ifft(y * np.exp(1j * np.angle(np.fft.fft(x)))).real


# %%
# Twenty-four spikes on 128 places. Phi is the identity; it only says how long x is.

rng = np.random.default_rng(5)
x = np.zeros(128)
x[rng.choice(128, 24, replace=False)] = rng.uniform(0.5, 1.5, 24)
magnitudes = np.abs(np.fft.fft(x))
result = sparsect.recover(
    np.eye(128),
    magnitudes,
    sparsity=24,
    method=sparsect.DifferenceMap(beta=0.7),
    data=FourierModulus(),
    max_iter=20_000,
    record=["gap"],
    record_at=1,
)
result

# %%
# Shifted, reversed and negative signals have the same magnitudes, so the answer is compared with the nearest of these.

twins = [sign * np.roll(part, k) for sign in (1, -1) for part in (x, x[::-1]) for k in range(128)]
truth = min(twins, key=lambda twin: np.linalg.norm(twin - result.x))
print(f"error: {np.linalg.norm(truth - result.x) / np.linalg.norm(truth):.1e}")

# %%
# The gap between the two sets wanders without a trend, and then drops: a search, not a descent.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
axes[0].vlines(np.flatnonzero(truth), 0, truth[truth != 0], color="C1", linewidth=4, alpha=0.5, label="truth")
axes[0].vlines(np.flatnonzero(result.x), 0, result.x[result.x != 0], color="C0", linewidth=1.5, label="found")
axes[0].axhline(0, color="0.8", linewidth=0.8, zorder=0)
axes[0].set(title="signal", xlabel="place", ylim=(None, 1.3 * np.abs(truth).max()))
axes[0].legend(ncols=2, loc="upper right")
axes[1].semilogy(result.history["iteration"], result.history["gap"], linewidth=1)
axes[1].set(title="gap between the sets", xlabel="iteration")
plt.show()
