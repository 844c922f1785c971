"""Patches of photographs for benchmarks: the same ones, and the same number of them, everywhere."""

from __future__ import annotations

import numpy as np

from sparsect import images
from sparsect.images.patches import PatchGrid

IMAGES, EVERY = 6, 4


def photographs(folder, count=IMAGES):
    """Photographs spread over the folder, grey, cropped to 4:3 and scaled to 320x240."""
    found = images.ImageFolder(folder, 240)
    for index in np.linspace(0, len(found) - 1, count).round().astype(int):
        image = found[int(index)]
        image = image.T if image.shape[0] > image.shape[1] else image
        height, width = image.shape
        wide = min(width, height * 4 // 3)
        left = (width - wide) // 2
        yield images.resize(image[: wide * 3 // 4, left : left + wide], 320)


def signals(folder, count=IMAGES, every=EVERY):
    """Every so many patches of the photographs, means removed."""
    rows = []
    for image in photographs(folder, count):
        grid = PatchGrid(image.shape, 20)
        rows.append(grid.patches(image, slice(0, grid.count))[::every])
    rows = np.concatenate(rows)
    return rows - rows.mean(axis=1, keepdims=True)
