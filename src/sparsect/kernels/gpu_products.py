"""Products with the basis of a row space on a GPU, and what their precision asks of the operands.

float32   both operands as they are, errors of 4e-7
bf16x3    images as hi hi + lo hi + hi lo, each factor two bfloat16 numbers, errors of 7e-6; corrections in TF32
tf32      both operands rounded to 11 bits by the matrix units, errors of 3e-4
fp16      the same 11 bits in half the bytes; numbers are scaled to fit, those below 6e-5 of the largest lose bits
"""

from __future__ import annotations

import math

import triton
import triton.language as tl

from ..backend.arrays import Array

# Matrix units read rows in pieces of 16 bytes; ranks are padded to a multiple of so many numbers.
ALIGNED = 16
# Numbers up to this many times the largest at the start must fit, and those as much smaller keep all bits.
ROOM = 64.0


def rescaled(x: Array, scale: float) -> Array:
    """``scale`` times x, or x itself where that is the same."""
    return x if scale == 1 else x * scale


@triton.jit
def store_operand(place, value, inside, n: tl.constexpr, SPLIT: tl.constexpr):
    """Store what is to be multiplied: as the type of ``place`` has it, or SPLIT in a high, a low and the high part."""
    if SPLIT:
        high = value.to(tl.bfloat16)
        low = (value - high.to(tl.float32)).to(tl.bfloat16)
        tl.store(place, high, mask=inside)
        tl.store(place + n, low, mask=inside)
        tl.store(place + 2 * n, high, mask=inside)
    else:
        tl.store(place, value, mask=inside)


class Basis:
    """V, V^H and the singular values as products of a given precision want them, the rank padded with zeros."""

    def __init__(self, basis: tuple[Array, Array, Array], precision: str) -> None:
        import torch

        analysis, synthesis, values = basis
        self.precision, self.split, half = precision, precision == "bf16x3", precision == "fp16"
        self.rank = values.shape[0]
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
        """The power of two that the numbers of a batch are divided by, so that they fit: 1 but for fp16."""
        if self.precision != "fp16":
            return 1.0
        largest = max(float(max(array.max(), -array.min())) for array in arrays) or 1.0
        fits = 1 / ROOM < largest < ROOM or not math.isfinite(largest)
        return 1.0 if fits else 2.0 ** round(math.log2(largest))

    def gains(self, alpha: float) -> Array:
        """What residuals are multiplied by to become corrections."""
        return self.values / (self.values * self.values + alpha)

    def padded(self, coordinates: Array) -> Array:
        """A copy of image coordinates with room for the padding."""
        import torch

        return torch.nn.functional.pad(coordinates, (0, self.padding)).contiguous()

    def operands(self, rows: int, n: int) -> Array:
        """Zeros, one row of them for each of that many points."""
        import torch

        return torch.zeros((rows, 3 * n if self.split else n), dtype=self.operand, device=self.values.device)

    def image(self, points: Array, out: Array, scale: float = 1.0, add: bool = False) -> None:
        """out = scale times the images of points, or that added to it; sums are float32 or wider."""
        import torch

        kind = {} if points.dtype == out.dtype else {"out_dtype": out.dtype}
        torch.addmm(out, points, self.analysis, beta=float(add), alpha=scale, out=out, **kind)

    def correct(self, coordinates: Array, out: Array) -> None:
        """out = the points of the row space with the given coordinates."""
        import torch

        torch.mm(coordinates, self.synthesis, out=out)
