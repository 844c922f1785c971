"""Denoising and inpainting beside other packages: BSD68 in full, colour, time, missing pixels.

Run ``python benchmarks/restoration.py IMAGES`` with the folder of the photographs of BSDS500 (``train`` and ``val``);
bsd68.txt has the names of the 68 pictures of BSD68 among ``val``. Every measurement is added to
results/restoration.jsonl and not repeated, so that an interrupted run goes on; results/restoration.md is written from
what is there. Peers, which the package itself never imports: ``pip install bm3d opencv-python-headless`` (the licence
of bm3d is non-commercial). Takes about an hour on one core, most of it for bm3d. Times are CPU times; set
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import machine
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from skimage import restoration

from sparsect import images

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PACKAGES = ("numpy", "numba", "scikit-image", "bm3d", "opencv-python-headless")
SIGMAS = (15, 25, 50)
# Published for BSD68 at the same noise; where a paper has no number, a dash.
PUBLISHED = {
    "BM3D (published)": (31.07, 28.57, 25.62),
    "EPLL (published)": (31.21, 28.68, 25.67),
    "WNNM (published)": (31.37, 28.83, 25.87),
    "DnCNN, a neural network (published)": (31.73, 29.23, 26.23),
}
COLOURED = 10
KINDS = ("50 %", "80 %", "text", "scratch")
INPAINTED = {"grey": "inpaint", "colour": "inpaint colour"}
# Parameters of the scikit-image methods, in units of sigma: the best of a grid on ten training photographs.
NLM_GRID, TV_GRID = (0.4, 0.6, 0.8, 1.0), (0.5, 0.8, 1.0, 1.3, 1.6)


def grey(path):
    """The photograph in grey, as in BSD68: rounded to 8 bits."""
    colours = np.asarray(Image.open(path).convert("RGB"), dtype=float)
    return (np.round(colours @ [0.2989, 0.5870, 0.1140]) / 255).astype(np.float32)


def colour(path):
    return np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255


def psnr(truth, found):
    return images.psnr_db(truth, np.clip(found, 0, 1))


def noisy(image, sigma, number):
    noise = np.random.default_rng([sigma, number]).standard_normal(image.shape)
    return (image + sigma / 255 * noise).astype(np.float32)


def nlm(image, sigma, h):
    axis = None if image.ndim == 2 else -1
    options = {"patch_size": 5, "patch_distance": 6, "fast_mode": True, "channel_axis": axis}
    return restoration.denoise_nl_means(image, h=h * sigma / 255, sigma=sigma / 255, **options)


def tv(image, sigma, weight):
    return restoration.denoise_tv_chambolle(image, weight * sigma / 255, channel_axis=None if image.ndim == 2 else -1)


def bm3d(image, sigma):
    import bm3d

    return (bm3d.bm3d if image.ndim == 2 else bm3d.bm3d_rgb)(image.astype(float), sigma / 255)


def opencv(image, missing, way):
    import cv2

    levels = np.round(255 * image).astype(np.uint8)
    return cv2.inpaint(levels, missing.astype(np.uint8), 5, getattr(cv2, way)) / np.float32(255)


def biharmonic(image, missing):
    return restoration.inpaint_biharmonic(image, missing, channel_axis=None if image.ndim == 2 else -1)


def gaps(shape, kind, number):
    """Pixels at random, lines of text, or twenty scratches three pixels wide."""
    rng, (height, width) = np.random.default_rng([7, number]), shape[:2]
    if kind.endswith("%"):
        return rng.random((height, width)) < float(kind[:-1]) / 100
    drawn = Image.new("L", (width, height), 0)
    draw = ImageDraw.Draw(drawn)
    if kind == "text":
        for top in range(0, height, 22):
            draw.text((3, top), "The quick brown fox jumps over the lazy dog. " * 4, 255, ImageFont.load_default(14))
    else:
        for _ in range(20):
            x, y, angle = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0, np.pi)
            along = rng.uniform(0.15, 0.5) * max(shape) * np.array([np.cos(angle), np.sin(angle)])
            draw.line([(x - along[0], y - along[1]), (x + along[0], y + along[1])], 255, 3)
    return np.asarray(drawn) > 100


class Measured:
    """Measurements by their names, kept in a file of JSON lines."""

    def __init__(self, path):
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = {tuple(key): values for key, values in map(json.loads, lines)}

    def __call__(self, key, truth, function, *arguments):
        """PSNR and CPU seconds for each megapixel."""
        if key not in self.found:
            start = time.process_time()
            found = function(*arguments)
            seconds = (time.process_time() - start) / (truth.shape[0] * truth.shape[1]) * 1e6
            self.found[key] = [round(psnr(truth, found), 4), round(seconds, 2)]
            with self._path.open("a") as stream:
                stream.write(json.dumps([key, self.found[key]]) + "\n")
        return self.found[key]

    def rows(self, *start):
        return {key: values for key, values in self.found.items() if key[: len(start)] == start}


def tuned(measured, folder, sigma):
    """The parameters of non-local means and total variation that are best on ten training photographs."""
    paths = sorted((folder / "train").glob("*.jpg"))[::20]
    for name, method, grid in (("non-local means", nlm, NLM_GRID), ("total variation", tv, TV_GRID)):
        scores = {value: [] for value in grid}
        for (number, path), value in itertools.product(enumerate(paths), grid):
            image = grey(path)[:200, :200]
            key = ("tuning", name, sigma, value, number)
            scores[value].append(measured(key, image, method, noisy(image, sigma, number), sigma, value)[0])
        yield name, method, max(grid, key=lambda value: np.mean(scores[value]))


def measure(folder, names, measured):
    methods = {
        "sparsect, best": lambda image, sigma: images.denoise(image, sigma / 255),
        "sparsect, fast": lambda image, sigma: images.denoise(image, sigma / 255, quality="fast"),
    }
    # Once before anything is timed, because kernels are compiled on their first use.
    images.inpaint(images.denoise(noisy(np.zeros((40, 40), np.float32), 25, 0), 0.1), gaps((40, 40), "50 %", 0))
    for sigma in (25, 50, 15):
        peers = {
            name: lambda image, sigma, method=method, value=value: method(image, sigma, value)
            for name, method, value in tuned(measured, folder, sigma)
        }
        for name, method in (methods | peers).items():
            for number, picture in enumerate(names):
                image = grey(folder / "val" / picture)
                measured(("grey", name, sigma, picture), image, method, noisy(image, sigma, number), sigma)
    chosen = names[:: len(names) // COLOURED][:COLOURED]
    for number, picture in enumerate(chosen):
        image = colour(folder / "val" / picture)
        for name, method in (methods | {"non-local means": peers["non-local means"], "bm3d": bm3d}).items():
            measured(("colour", name, 25, picture), image, method, noisy(image, 25, number), 25)
    fillers = {
        "sparsect": images.inpaint,
        "biharmonic (scikit-image)": biharmonic,
        "Telea (OpenCV)": lambda image, missing: opencv(image, missing, "INPAINT_TELEA"),
        "Navier-Stokes (OpenCV)": lambda image, missing: opencv(image, missing, "INPAINT_NS"),
    }
    for read, (number, picture), kind in itertools.product((grey, colour), enumerate(chosen), KINDS):
        image = read(folder / "val" / picture)
        missing = gaps(image.shape, kind, number)
        torn = image * ~(missing if image.ndim == 2 else missing[..., None])
        for name, filler in fillers.items():
            measured((INPAINTED[read.__name__], name, kind, picture), image, filler, torn, missing)
    for sigma, (number, picture) in itertools.product((25, 50, 15), enumerate(names)):
        image = grey(folder / "val" / picture)
        measured(("grey", "bm3d", sigma, picture), image, bm3d, noisy(image, sigma, number), sigma)


def mean(values, column=0, all_of=None):
    """The mean, and over how many pictures if these are not all."""
    few = f" ({len(values)} only)" if all_of is not None and len(values) < all_of else ""
    return f"{np.mean([value[column] for value in values]):.2f}{few}" if values else "-"


def beside_bm3d(measured, kind, sigma):
    """The difference picture by picture, for the pictures that both were run on."""
    ours = {key[3]: values[0] for key, values in measured.rows(kind, "sparsect, best", sigma).items()}
    peer = {key[3]: values[0] for key, values in measured.rows(kind, "bm3d", sigma).items()}
    gains = [ours[picture] - peer[picture] for picture in ours if picture in peer]
    if gains:
        yield (
            f"Sigma {sigma}, the {len(gains)} pictures that both were run on: sparsect minus bm3d is "
            f"{np.mean(gains):+.2f} dB on average, from {min(gains):+.2f} to {max(gains):+.2f}."
        )


def table(measured):
    """The lines of the report, from what has been measured so far."""
    yield "# Denoising and inpainting"
    yield ""
    yield (
        "PSNR in dB, mean over pictures; seconds of CPU time per megapixel, one thread. Photographs of BSDS500; every "
        "parameter of sparsect was chosen on `train`, the pictures here are of `val`."
    )
    yield from ("", "## BSD68, grey, white noise of known sigma (of 255)", "")
    yield "| | sigma 15 | 25 | 50 | s per megapixel at 25 |"
    yield "|---|---|---|---|---|"
    for name in ("sparsect, best", "sparsect, fast", "bm3d", "non-local means", "total variation"):
        rows = [list(measured.rows("grey", name, sigma).values()) for sigma in SIGMAS]
        yield f"| {name} | {' | '.join(mean(part, all_of=68) for part in rows)} | {mean(rows[1], 1)} |"
    for name, values in PUBLISHED.items():
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} | |"
    yield ""
    for sigma in SIGMAS:
        yield from beside_bm3d(measured, "grey", sigma)
    yield from (
        "",
        "## Colour, sigma 25, ten photographs",
        "",
        "| | PSNR | s per megapixel |",
        "|---|---|---|",
    )
    for name in ("sparsect, best", "sparsect, fast", "bm3d", "non-local means"):
        rows = list(measured.rows("colour", name, 25).values())
        yield f"| {name} | {mean(rows, all_of=COLOURED)} | {mean(rows, 1)} |"
    yield ""
    yield from beside_bm3d(measured, "colour", 25)
    for read, name in INPAINTED.items():
        yield from ("", f"## Missing pixels, ten photographs in {read}", "")
        yield from completed(measured, name)
    yield from ("", f"{machine.described(PACKAGES)}.")


def completed(measured, what):
    """The lines about missing pixels."""
    yield "| | " + " | ".join(KINDS) + " | s per megapixel at 50 % |"
    yield "|---|" + "---|" * (len(KINDS) + 1)
    fillers = ("sparsect", "biharmonic (scikit-image)", "Telea (OpenCV)", "Navier-Stokes (OpenCV)")
    for name in fillers:
        rows = [list(measured.rows(what, name, kind).values()) for kind in KINDS]
        yield f"| {name} | {' | '.join(mean(part, all_of=COLOURED) for part in rows)} | {mean(rows[0], 1)} |"
    ours = measured.rows(what, "sparsect")
    gains = [
        values[0] - max(measured.found[(what, name, *key[2:])][0] for name in fillers[1:])
        for key, values in ours.items()
        if all((what, name, *key[2:]) in measured.found for name in fillers[1:])
    ]
    if gains:
        yield ""
        yield (
            f"sparsect minus the best of the others, picture by picture ({len(gains)}): {np.mean(gains):+.2f} dB on "
            f"average, from {min(gains):+.2f} to {max(gains):+.2f}."
        )


def main():
    folder, names = Path(sys.argv[1]), (HERE / "bsd68.txt").read_text().split()
    measured = Measured(RESULTS / "restoration.jsonl")
    try:
        measure(folder, names, measured)
    finally:
        (RESULTS / "restoration.md").write_text("\n".join(table(measured)) + "\n")


if __name__ == "__main__":
    main()
