"""PNG files with 16 bits per channel, in colour or with an alpha channel, which Pillow reads and writes with 8 bits."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from ..backend.arrays import Array
from ..backend.checks import InputError
from ..backend.parallel import compiled

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Channels of each colour type of the PNG specification: grey, colours, grey with alpha, colours with alpha.
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


def is_deep(head: bytes) -> bool:
    """Whether a PNG file has 16 bits per channel and more than one channel.

    Parameters
    ----------
    head : bytes
        At least the first 29 bytes of the file.

    Returns
    -------
    bool
        True if :func:`decode` reads what Pillow does not.
    """
    return head[:8] == SIGNATURE and len(head) >= 29 and head[24] == 16 and head[25] in (2, 4, 6)


def decode(name: str, data: bytes) -> Array:
    """Decode a PNG file with 16 bits per channel.

    Parameters
    ----------
    name : str
        Name of the file for error messages.
    data : bytes
        Contents of the file.

    Returns
    -------
    array of uint16, shape (height, width, channels)
        The image.
    """
    width, height, _, kind, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if interlaced:
        raise InputError(f"{name}: an interlaced PNG with 16 bits per channel, which is not supported")
    chunks = _chunks(data)
    if any(label == b"tRNS" for label, _ in chunks):
        raise InputError(f"{name}: a transparent colour in a PNG with 16 bits per channel, which is not supported")
    stream = b"".join(part for label, part in chunks if label == b"IDAT")
    size = height * (1 + 2 * CHANNELS[kind] * width)
    try:
        rows = zlib.decompressobj().decompress(stream, size)
    except zlib.error as error:
        raise InputError(f"{name}: a damaged image ({error})") from None
    if len(rows) != size:
        raise InputError(f"{name}: a damaged image (its data end early)")
    filtered = np.frombuffer(rows, dtype=np.uint8).reshape(height, -1)
    if filtered[:, 0].max() > 4:
        raise InputError(f"{name}: a damaged image (an unknown filter)")
    levels = np.zeros((height + 1, filtered.shape[1] - 1 + 2 * CHANNELS[kind]), dtype=np.uint8)
    _unfilter(filtered, 2 * CHANNELS[kind], levels)
    plain = np.ascontiguousarray(levels[1:, 2 * CHANNELS[kind] :])
    return plain.view(">u2").astype(np.uint16).reshape(height, width, CHANNELS[kind])


def encode(
    levels: Array,
    exif: bytes | None = None,
    profile: bytes | None = None,
    resolution: tuple[float, float] | None = None,
) -> bytes:
    """Encode an image as a PNG file with 16 bits per channel.

    Parameters
    ----------
    levels : array of uint16, shape (height, width) or (height, width, channels)
        The image, with 1 to 4 channels.
    exif : bytes, optional
        EXIF data.
    profile : bytes, optional
        ICC profile.
    resolution : tuple of float, optional
        Dots per inch, horizontally and vertically.

    Returns
    -------
    bytes
        The contents of the file.
    """
    height, width = levels.shape[:2]
    channels = levels.size // (height * width)
    kind = next(kind for kind, count in CHANNELS.items() if count == channels)
    big = np.ascontiguousarray(levels, dtype=">u2").reshape(height, -1).view(np.uint8)
    # Filter 2: every row as its difference from the row above.
    rows = np.full((height, big.shape[1] + 1), 2, dtype=np.uint8)
    rows[:, 1:] = big
    rows[1:, 1:] -= big[:-1]
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0))]
    if profile:
        chunks.append((b"iCCP", b"ICC profile\0\0" + zlib.compress(profile)))
    if resolution:
        # Dots per metre, and the number that says so.
        chunks.append((b"pHYs", struct.pack(">IIB", *(round(dots / 0.0254) for dots in resolution), 1)))
    if exif:
        chunks.append((b"eXIf", exif.removeprefix(b"Exif\0\0")))
    chunks += [(b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(part)) + label + part + struct.pack(">I", zlib.crc32(label + part))
        for label, part in chunks
    )


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, place = [], 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    return found


@compiled
def _unfilter(filtered, step, levels):  # type: ignore[no-untyped-def]
    """Undo the filters of the rows; ``levels`` has a row above and a pixel to the left of the image, all zero."""
    for row in range(filtered.shape[0]):
        method = filtered[row, 0]
        for place in range(filtered.shape[1] - 1):
            left, above = np.int64(levels[row + 1, place]), np.int64(levels[row, step + place])
            corner, guess = np.int64(levels[row, place]), np.int64(0)
            if method == 1:
                guess = left
            elif method == 2:
                guess = above
            elif method == 3:
                guess = (left + above) // 2
            elif method == 4:
                near_left, near_above = abs(above - corner), abs(left - corner)
                near_corner = abs(left + above - 2 * corner)
                if near_left <= near_above and near_left <= near_corner:
                    guess = left
                elif near_above <= near_corner:
                    guess = above
                else:
                    guess = corner
            levels[row + 1, step + place] = (np.int64(filtered[row, 1 + place]) + guess) & 255
