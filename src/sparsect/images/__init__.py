"""Images and patches: reading and writing, reconstruction, denoising and inpainting."""

from .compare import difference, psnr_db
from .denoise import denoise
from .files import read_image, resize, to_gray, write_image
from .folder import ImageFolder
from .inpaint import inpaint
from .noise import estimate_sigma
from .patch_source import PatchSource
from .patches import PatchGrid
from .reconstruct import Codes, PartialImage, Reconstruction, load_codes, reconstruct
from .samples import sample

__all__ = [
    "Codes",
    "ImageFolder",
    "PartialImage",
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
