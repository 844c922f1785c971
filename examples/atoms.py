"""
Learn a dictionary and look at it
=================================

Atoms that are learned from patches of a photograph become edges and textures.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# Ten thousand patches of 8x8 pixels, with their means removed, from a photograph that comes with scikit-image. Codes
# have at most five nonzeros while learning.

photograph = sparsect.images.to_gray(sparsect.images.sample("chelsea"))
patches = sparsect.images.PatchSource([photograph], patch=8, size=10_000).batch(0)
learner = sparsect.DictionaryLearner(n_atoms=144, sparsity=5, rounds=15, random_state=0).fit(patches)

# %%
# Atoms in the order of how often they are used. The sign of an atom means nothing, so the largest entry is shown
# bright.

usage = np.asarray((learner.transform(patches) != 0).sum(axis=0)).ravel()
atoms = learner.components_[np.argsort(-usage)]
atoms = atoms * np.sign(np.take_along_axis(atoms, np.abs(atoms).argmax(axis=1)[:, None], axis=1))
atoms /= np.abs(atoms).max(axis=1, keepdims=True)

figure, axes = plt.subplots(12, 12, figsize=(6, 6))
for axis, atom in zip(axes.flat, atoms, strict=True):
    axis.imshow(atom.reshape(8, 8), cmap="gray", vmin=-1, vmax=1)
    axis.axis("off")
figure.subplots_adjust(0.01, 0.01, 0.99, 0.99, 0.06, 0.06)

# %%
# What the dictionary is worth: the error of patches coded with few atoms, beside a discrete cosine transform of the
# same size of support.

from scipy.fft import dctn  # noqa: E402

sizes = [1, 2, 3, 5, 8, 12]
cosines = dctn(patches.reshape(-1, 8, 8), axes=(1, 2), norm="ortho").reshape(len(patches), -1)
energy = np.sort(cosines**2, axis=1)[:, ::-1].cumsum(axis=1)
total = np.sum(patches**2)
learned = []
for s in sizes:
    coder = sparsect.SparseCoder(learner.dictionary_, sparsity=s).fit(patches)
    error = patches - coder.inverse_transform(coder.transform(patches))
    learned.append(10 * np.log10(total / np.sum(error**2)))
figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
axis.plot(sizes, learned, "o-", label="learned atoms")
axis.plot(sizes, [10 * np.log10(total / (total - energy[:, s - 1].sum())) for s in sizes], "s--", label="cosines")
axis.set(xlabel="nonzeros of a patch", ylabel="SNR in dB")
axis.legend()
plt.show()
