"""Products with the basis of Phi's row space on a GPU, in one of four precisions.

float32   operands are used as they are; errors of 4e-7
bf16x3    images are hi hi + lo hi + hi lo, where hi and lo are bfloat16 numbers; errors of 7e-6; corrections in TF32
tf32      operands are rounded to 11 bits by the matrix units; errors of 3e-4
fp16      the same 11 bits in half the bytes; numbers are scaled, and those below 6e-5 of the largest lose bits
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from ..backend.arrays import Array

# Matrix units read rows in pieces of 16 bytes, so ranks are padded to a multiple of this.
ALIGNED = 16
# Numbers may grow by this factor during the steps without overflow, and shrink by it without losing bits.
ROOM = 64.0


def rescaled(x: Array, scale: float) -> Array:
    """Return ``scale`` times x, or x itself if the scale is 1."""
    return x if scale == 1 else x * scale


@triton.jit
def store_operand(place, value, inside, n: tl.constexpr, SPLIT: tl.constexpr):
    """Store an operand in the type of ``place``, or SPLIT it into a high part, a low part and the high part again."""
    if SPLIT:
        high = value.to(tl.bfloat16)
        low = (value - high.to(tl.float32)).to(tl.bfloat16)
        tl.store(place, high, mask=inside)
        tl.store(place + n, low, mask=inside)
        tl.store(place + 2 * n, high, mask=inside)
    else:
        tl.store(place, value, mask=inside)


class Basis:
    """V, V^H and the singular values in the form that a precision requires, with the rank padded by zeros."""

    def __init__(self, basis: tuple[Array, Array, Array], precision: str) -> None:
        import torch

        analysis, synthesis, values = basis
        self.precision, self.split, half = precision, precision == "bf16x3", precision == "fp16"
        # Of several measurements at a time, each has the same singular values.
        self.rank = analysis.shape[1]
        values = values[: self.rank]
        self.padding = -self.rank % ALIGNED
        pad = torch.nn.functional.pad
        self.values = pad(values, (0, self.padding), value=1.0)
        analysis, synthesis = pad(analysis, (0, self.padding)), pad(synthesis, (0, 0, 0, self.padding))
        self.operand = torch.bfloat16 if self.split else torch.float16 if half else values.dtype
        self.coordinate = torch.float16 if half else values.dtype
        if self.split:
            high = analysis.to(torch.bfloat16)
            analysis = torch.cat([high, high, (analysis - high.to(analysis.dtype)).to(torch.bfloat16)])
        # Stored column by column, which the matrix units read fastest: 3.0 instead of 5.1 ns a row.
        self.analysis = analysis.to(self.operand).T.contiguous().T
        self.synthesis = synthesis.to(self.coordinate).T.contiguous().T

    def scale(self, *arrays: Array) -> float:
        """Return the power of two by which a batch is divided to fit the range of fp16; 1 in other precisions."""
        if self.precision != "fp16":
            return 1.0
        largest = max(float(max(array.max(), -array.min())) for array in arrays) or 1.0
        fits = 1 / ROOM < largest < ROOM or not math.isfinite(largest)
        return 1.0 if fits else 2.0 ** round(math.log2(largest))

    def gains(self, alpha: float) -> Array:
        """Return the factors that turn residuals into corrections."""
        return self.values / (self.values * self.values + alpha)

    def padded(self, coordinates: Array) -> Array:
        """Return a copy of image coordinates with the padding appended."""
        import torch

        return torch.nn.functional.pad(coordinates, (0, self.padding)).contiguous()

    def operands(self, rows: int, n: int) -> Array:
        """Return an array of zeros for the operands of the given number of points."""
        import torch

        return torch.zeros((rows, 3 * n if self.split else n), dtype=self.operand, device=self.values.device)

    def image(self, points: Array, out: Array, scale: float = 1.0, add: bool = False) -> None:
        """Write ``scale`` times the images of points to ``out``, or add it there; sums are in float32 or wider."""
        import torch

        kind = {} if points.dtype == out.dtype else {"out_dtype": out.dtype}
        torch.addmm(out, points, self.analysis, beta=float(add), alpha=scale, out=out, **kind)

    def correct(self, coordinates: Array, out: Array) -> None:
        """Write the points of the row space with the given coordinates to ``out``."""
        import torch

        torch.mm(coordinates, self.synthesis, out=out)
