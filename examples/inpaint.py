"""
Fill in missing pixels
======================

Half of the pixels of a photograph are missing, and a scratch crosses it.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# The mask is True where a pixel is missing; what the image contains there does not matter.

clean = sparsect.images.sample("astronaut")[20:140, 160:280]
mask = np.random.default_rng(0).random(clean.shape[:2]) < 0.5
rows = np.arange(120)
mask[rows, np.clip(rows + 3, 0, 119)] = mask[rows, np.clip(rows + 4, 0, 119)] = True
filled = sparsect.images.inpaint(clean, mask)

# %%
# The known pixels are kept as they are.

torn = np.where(mask[..., None], 0, clean)
pictures = {"known pixels": torn, "filled in": filled, "original": clean}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
for axis, (name, picture) in zip(axes, pictures.items(), strict=True):
    axis.imshow(np.clip(picture, 0, 1))
    quality = f", {sparsect.images.psnr_db(clean, filled):.1f} dB" if picture is filled else ""
    axis.set_title(name + quality, fontsize=10)
    axis.axis("off")
plt.show()
