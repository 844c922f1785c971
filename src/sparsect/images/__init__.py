"""Images and patches: reading and writing, reconstruction, denoising and inpainting."""

from .compare import difference, psnr_db
from .files import ImageFolder, read_image, resize, to_gray, write_image
from .patch_source import PatchSource
from .patches import PatchGrid
from .reconstruct import Codes, Reconstruction, load_codes, reconstruct
from .restore import denoise, estimate_sigma, inpaint
from .samples import sample

__all__ = [
    "Codes",
    "ImageFolder",
    "PatchGrid",
    "PatchSource",
    "Reconstruction",
    "denoise",
    "difference",
    "estimate_sigma",
    "inpaint",
    "load_codes",
    "psnr_db",
    "read_image",
    "reconstruct",
    "resize",
    "sample",
    "to_gray",
    "write_image",
]
