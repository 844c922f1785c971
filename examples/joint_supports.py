"""
Several measurements of the same sources
========================================

Antennas hear a few plane waves at several times. The directions stay the same, only the amplitudes change: a joint
support.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect
from sparsect import sets

# %%
# Twenty antennas on a line, half a wavelength apart, and 180 candidate directions, one for each degree. Five waves
# arrive; two pairs of them are three or four degrees apart.

angles = np.arange(-90, 90)
antennas = np.arange(20)
Phi = np.exp(1j * np.pi * antennas[:, None] * np.sin(np.deg2rad(angles))) / np.sqrt(antennas.size)
sources = np.searchsorted(angles, [-40, -36, 5, 8, 45])

# %%
# With more snapshots, the joint search finds all directions, while separate searches are as uncertain about each
# snapshot as before.


def draw(times, rng):
    x = np.zeros((times, angles.size), complex)
    x[:, sources] = rng.standard_normal((times, 5)) + 1j * rng.standard_normal((times, 5))
    clean = x @ Phi.T
    noise = rng.standard_normal(clean.shape) + 1j * rng.standard_normal(clean.shape)
    return x, clean + noise * np.linalg.norm(clean) / np.linalg.norm(noise) / 10  # 20 dB


def recall(x, estimate):
    return float(sparsect.support_recall(x, estimate).mean())


snapshots, trials = (1, 2, 4, 8), 5
joint, separate = np.zeros((2, len(snapshots)))
for number, times in enumerate(snapshots):
    for trial in range(trials):
        x, y = draw(times, np.random.default_rng([times, trial]))
        joint[number] += recall(x, sparsect.recover(Phi, y, sets.JointSparse(5)).x) / trials
        separate[number] += recall(x, sparsect.recover(Phi, y, 5).x) / trials

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(snapshots, joint, "o-", label="joint support")
axes[0].plot(snapshots, separate, "s--", label="each snapshot alone")
axes[0].set(xlabel="snapshots", ylabel="share of the directions found", ylim=(0, 1.05), xticks=snapshots)
axes[0].legend()

found = sparsect.recover(Phi, y, sets.JointSparse(5)).x
beamformer = np.linalg.norm(y @ Phi.conj(), axis=0)
axes[1].plot(angles, beamformer / beamformer.max(), color="0.6", label="beamformer")
power = np.linalg.norm(found, axis=0)
axes[1].vlines(angles[power > 0], 0, power[power > 0] / power.max(), color="C0", linewidth=2, label="joint support")
axes[1].plot(angles[sources], np.full(5, 1.06), "v", color="C1", label="true directions")
axes[1].set(xlabel="direction in degrees", ylabel="amplitude", title=f"{times} snapshots", ylim=(0, 1.45))
axes[1].legend(loc="upper center", ncols=3, fontsize=8)
plt.show()
