"""
Remove noise from a photograph
==============================

White noise on a photograph, and what is left after denoising.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.restoration import denoise_nl_means

import sparsect

# %%
# A part of a photograph, with noise of standard deviation 25 if white is 255. If ``sigma`` is not given, it is
# estimated.

clean = sparsect.images.sample("camera")[60:220, 150:310]
sigma = 25 / 255
noisy = clean + sigma * np.random.default_rng(0).standard_normal(clean.shape)
print(f"estimated: {255 * sparsect.images.estimate_sigma(noisy):.1f}")

denoised = sparsect.images.denoise(noisy, sigma=sigma)
means = denoise_nl_means(noisy, h=0.6 * sigma, sigma=sigma, patch_size=5, patch_distance=6, fast_mode=True)

# %%
# Non-local means of scikit-image is shown for comparison. One photograph says little about
# others.

pictures = {"noisy": noisy, "non-local means": means, "sparsect.images.denoise": denoised, "original": clean}
figure, axes = plt.subplots(1, 4, figsize=(12, 3.5), layout="constrained")
for axis, (name, picture) in zip(axes, pictures.items(), strict=True):
    axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
    quality = "" if picture is clean else f", {sparsect.images.psnr_db(clean, picture):.1f} dB"
    axis.set_title(name + quality, fontsize=10)
    axis.axis("off")
plt.show()
