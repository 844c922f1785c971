"""What a GPU makes of it: one iteration beside its floor, accuracy by precision, learning, photographs, rivals.

Run ``python benchmarks/gpu.py TRAIN VAL`` with folders of photographs on a machine with a GPU, torch and Triton; tables
are printed and written to results/gpu.md. The last one takes the CPU's side from results/against-peers.json. Takes
about three minutes. Nothing else should run beside it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import machine
import numpy as np
import torch
from patches import signals

import sparsect
from sparsect import ADMM, AnnealedDifferenceMap, DifferenceMap, gpu_options, images
from sparsect.backend.devices import PRECISIONS
from sparsect.dictionary import learn
from sparsect.images import PatchSource
from sparsect.kernels.gpu_products import Basis
from sparsect.operators.least_squares import on_support
from sparsect.problems import Problem

HERE = Path(__file__).parent
ROWS, STEPS = 200_000, 25
# A gap that no row comes down to.
NEVER = np.full(ROWS, -1.0)
CHOICES = PRECISIONS[1:]
CODER = ADMM(mu=3.0, lam=0.03)
BUDGETS = (15, 30, 60, 120, 250, 500, 1000)
SPARSITIES = (100, 200)


def timed(function, repeats=7):
    """Median seconds of a call, after two that are not counted."""
    seconds = []
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds[2:]))


def steady(step):
    """Seconds of one of many steps: twice as many less as many, so that starting does not count."""
    return (timed(lambda: step(2 * STEPS), 5) - timed(lambda: step(STEPS), 5)) / STEPS


def bandwidth():
    """Bytes a second of a copy within the GPU's memory, read and written."""
    source = torch.randn(ROWS, 1000, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source))


def products(basis, precision, points):
    """Seconds of an image and of a correction of ``points`` rows, and the relative errors of both."""
    chosen = Basis(basis, precision)
    analysis, synthesis, _ = basis
    n, rank = analysis.shape
    x = torch.randn(points, n, device="cuda")
    operand = chosen.operands(points, n)
    if chosen.split:
        operand[:, :n] = operand[:, 2 * n :] = x
        operand[:, n : 2 * n] = x - operand[:, :n].float()
    else:
        operand[:] = x
    image = torch.empty(points, rank + chosen.padding, device="cuda")
    coordinates = torch.randn(points, rank + chosen.padding, device="cuda").to(chosen.coordinate)
    w = torch.empty(points, n, device="cuda", dtype=chosen.coordinate)
    with sparsect.backend.devices.tensor_cores(precision != "float32"):
        seconds = timed(lambda: chosen.image(operand, image)), timed(lambda: chosen.correct(coordinates, w))
    few = slice(0, 500)
    exact = x[few].double() @ analysis.double(), coordinates[few, :rank].double() @ synthesis.double()
    errors = (image[few, :rank] - exact[0]).norm() / exact[0].norm(), (w[few] - exact[1]).norm() / exact[1].norm()
    return seconds, tuple(map(float, errors))


def moved(name, precision, n, rank):
    """Bytes that the kernels beside the products have to read and write for a row of one step."""
    operand = {"bf16x3": 6, "fp16": 2}.get(precision, 4) * n
    support = {"bf16x3": 2, "fp16": 2}.get(precision, 4) * n
    w = (2 if precision == "fp16" else 4) * n
    coordinate = (2 if precision == "fp16" else 4) * rank
    x, image = 8 * n, 4 * rank
    return {
        "beta = 0.14": x + 2 * w + support + 2 * operand + 4 * image + 2 * coordinate + coordinate,
        "beta = 1": x + w + operand + 3 * image + coordinate,
        "admm": 2 * w + 2 * w + operand,
    }[name]


def iteration_table(operator, y, speed):
    problem = Problem(operator, y, 100)
    n, rank = operator.shape[1], operator.pseudo_inverse.rank
    solvers = {"beta = 0.14": DifferenceMap(), "beta = 1": DifferenceMap(1.0), "admm": CODER}
    yield "| products in | step of | ns a row | floor: products + bytes | ratio |"
    yield "|---|---|---|---|---|"
    for precision in CHOICES:
        (image, correction), _ = products(operator.pseudo_inverse.basis, precision, ROWS)
        with gpu_options(precision=precision):
            for name, solver in solvers.items():
                state = solver.steps(problem, solver.init(problem), NEVER, [0.0] * 10)
                each = steady(lambda count, run=solver.steps, at=state: run(problem, at, NEVER, [0.0] * count)) / ROWS
                calls = 2 if name == "beta = 0.14" else 1
                work, bytes_ = calls * (image + correction) / ROWS, moved(name, precision, n, rank) / speed
                floor = f"{1e9 * work:.1f} + {1e9 * bytes_:.1f} = {1e9 * (work + bytes_):.1f}"
                yield f"| {precision} | {name} | **{1e9 * each:.1f}** | {floor} | {each / (work + bytes_):.2f} |"
    for name, solver in solvers.items():
        # What the array-API path does of itself, with products in TF32.
        with sparsect.backend.devices.tensor_cores(True):
            state = solver.step(problem, solver.init(problem))
            each = timed(lambda solver=solver, state=state: solver.step(problem, state), 5) / ROWS
        yield f"| tf32 | {name}, without kernels of its own | {1e9 * each:.1f} | | |"


def accuracy_table(operator, rows):
    noiseless = sparsect.random_problem(400, 1000, 100, batch=2000, rng=0, dtype="float32")
    Phi, y, truth = (torch.from_numpy(array).cuda() for array in (noiseless.Phi, noiseless.y, noiseless.x))
    yield (
        "| products in | error of images | of corrections | converged | error of x | annealed, s = 100 (dB) "
        "| s = 200 (dB) | ADMM objective | atoms' error |"
    )
    yield "|" + "---|" * 9
    objectives = {}
    for precision in (*CHOICES[::-1],):
        _, errors = products(operator.pseudo_inverse.basis, precision, 1000)
        with gpu_options(precision=precision):
            found = sparsect.recover(Phi, y, 100, "difference-map", max_iter=1000)
            done = found.converged
            error = float((found.x[done] - truth[done]).abs().max()) if done.any() else np.nan
            quality = [snr(solved(operator, rows, s, 250)[0], rows) for s in SPARSITIES]
            problem = Problem(operator, rows, 1000)
            codes = sparsect.solve(problem, CODER, max_iter=20, tol=0.0, record=())
            objectives[precision] = penalty(codes)
            source = PatchSource(
                [torch.from_numpy(images.to_gray(images.sample())).cuda()], 20, 20_000, batch_size=20_000
            )
            atoms = learn(source, 500, coder=CODER, rounds=3).rounds[-1]["error"]
        relative = objectives[precision] / objectives["float32"] - 1
        yield (
            f"| {precision} | {errors[0]:.1e} | {errors[1]:.1e} | {float(done.float().mean()):.3f} | {error:.1e} | "
            f"{quality[0]:.3f} | {quality[1]:.3f} | {relative:+.1e} | {atoms:.5f} |"
        )


def penalty(codes):
    """What ADMM minimises, with |x|^(1/2) for the penalty that its shrinkage belongs to up to a constant."""
    return float(0.5 * (codes.residual_norm**2).sum() + CODER.lam * codes.x.abs().sqrt().sum())


def solved(operator, rows, s, budget):
    """Residuals of the annealed map for all rows, and seconds, the final fit included."""
    problem = Problem(operator, rows, s)
    result = sparsect.solve(problem, AnnealedDifferenceMap("approximation"), max_iter=budget, record=())
    return result.residual_norm, result.seconds


def snr(residual_norm, rows):
    return float(10 * torch.log10((rows.double() ** 2).sum() / (residual_norm.double() ** 2).sum()))


def learning_table(folder):
    photographs = images.ImageFolder(folder, smallest=20, device="cuda")
    source = PatchSource(photographs, 20, 10_000_000, rng=1, batch_size=ROWS)
    yield "| products in | memory allowed | seconds a round | least, most | GPU memory at the most |"
    yield "|---|---|---|---|---|"
    for precision, limit in (("fp16", None), ("tf32", None), ("fp16", 4 * 2**30)):
        moments = []

        def seen(step, moments=moments):
            if step.batch == step.batches and len(step.dictionary.rounds) == step.round:
                torch.cuda.synchronize()
                moments.append(time.perf_counter())

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        with gpu_options(precision=precision, memory=limit), tempfile.TemporaryDirectory() as folder:
            learn(source, 1000, coder=CODER, rounds=4, checkpoint=Path(folder) / "d.npz", progress=seen)
        seconds = np.diff(moments)
        allowed = "all" if limit is None else f"{limit / 2**30:.0f} GiB"
        peak = torch.cuda.max_memory_allocated() / 2**30
        least, most = seconds.min(), seconds.max()
        yield f"| {precision} | {allowed} | **{seconds.mean():.2f}** | {least:.2f}, {most:.2f} | {peak:.1f} GiB |"


def photograph_table(folder):
    photographs = images.ImageFolder(folder, smallest=300)
    tile = images.read_image(photographs.paths[0])
    down, across = -(-4000 // tile.shape[0]), -(-6000 // tile.shape[1])
    picture = np.tile(tile, (down, across, 1))[:4000, :6000]
    yield "| stride | iterations | patches | read | reconstruct | of it coding | write | end to end | patch SNR (dB) |"
    yield "|" + "---|" * 9
    with tempfile.TemporaryDirectory() as folder:
        images.write_image(Path(folder) / "large.jpg", picture)
        images.reconstruct(picture[:400, :400], 100, device="cuda", max_iter=100)
        for stride, budget in ((20, 100), (20, 1000), (10, 100), (10, 1000)):
            moments = [time.perf_counter()]
            image = images.read_image(Path(folder) / "large.jpg")
            moments.append(time.perf_counter())
            result = images.reconstruct(image, 100, stride=stride, max_iter=budget, device="cuda")
            moments.append(time.perf_counter())
            images.write_image(Path(folder) / "out.jpg", result.image)
            moments.append(time.perf_counter())
            read, work, write = np.diff(moments)
            yield (
                f"| {stride} | {budget} | {result.codes.means.size} | {read:.1f} s | {work:.1f} s "
                f"| {result.seconds:.1f} s | {write:.1f} s | **{read + work + write:.1f} s** "
                f"| {result.patch_snr_db:.2f} |"
            )


def denoising_table(folder):
    photographs = images.ImageFolder(folder, smallest=300)
    tile = images.read_image(photographs.paths[0])
    down, across = -(-1000 // tile.shape[0]), -(-1000 // tile.shape[1])
    colours = np.tile(tile, (down, across, 1))[:1000, :1000]
    sigma, rng = 25 / 255, np.random.default_rng(0)
    yield "| | quality | seconds | PSNR (dB) | GPU memory (GiB) |"
    yield "|---|---|---|---|---|"
    for name, clean in (("grey", images.to_gray(colours)), ("colour", colours)):
        noisy = (clean + sigma * rng.standard_normal(clean.shape)).astype(np.float32)
        for quality in ("fast", "best"):
            torch.cuda.reset_peak_memory_stats()
            seconds = timed(lambda: images.denoise(noisy, sigma, quality=quality, device="cuda"), 3)  # noqa: B023
            memory = torch.cuda.max_memory_allocated() / 2**30
            found = images.denoise(noisy, sigma, quality=quality, device="cuda")
            yield f"| {name} | {quality} | **{seconds:.2f}** | {images.psnr_db(clean, found):.2f} | {memory:.1f} |"
        missing = rng.random(clean.shape[:2]) < 0.5
        torn = np.where(missing if clean.ndim == 2 else missing[..., None], np.float32(0), clean.astype(np.float32))
        torch.cuda.reset_peak_memory_stats()
        seconds = timed(lambda: images.inpaint(torn, missing, device="cuda"), 1)  # noqa: B023
        memory = torch.cuda.max_memory_allocated() / 2**30
        found = images.inpaint(torn, missing, device="cuda")
        yield f"| {name} | inpaint | **{seconds:.2f}** | {images.psnr_db(clean, found):.2f} | {memory:.1f} |"


def batched_omp(operator, rows, s):
    """Orthogonal matching pursuit for all rows at once: the atoms chosen so far are kept orthonormal, as in QR."""
    Phi, (batch, m) = operator.Phi, rows.shape
    atoms, every = Phi.T.contiguous(), torch.arange(batch, device="cuda")
    residual, chosen = rows.clone(), torch.zeros((batch, Phi.shape[1]), dtype=torch.bool, device="cuda")
    Q = torch.empty((batch, s, m), device="cuda")
    for step in range(s):
        correlation = (residual @ Phi).abs_().masked_fill_(chosen, -1)
        place = correlation.argmax(1)
        chosen[every, place] = True
        q = atoms[place]
        if step:
            before = Q[:, :step]
            for _ in range(2):
                q = q - torch.bmm(torch.bmm(before, q[:, :, None]).mT, before)[:, 0]
        q = q / q.norm(dim=1, keepdim=True).clamp_min(1e-6)
        Q[:, step] = q
        residual = residual - (residual * q).sum(1, keepdim=True) * q
    return on_support(operator, rows, chosen)


def rivals_table(operator, rows):
    on_cpu = json.loads((HERE / "results" / "against-peers.json").read_text())
    many = rows.repeat(50, 1)
    yield "| | s | patches a second | SNR (dB) | times SPAMS |"
    yield "|---|---|---|---|---|"
    for s in SPARSITIES:
        goal, each = on_cpu["SPAMS omp"][str(s)][0][:2]
        lines = [("SPAMS omp, 2 CPU cores", 1 / each, goal)]
        cpu = next(point for point in on_cpu["annealed-difference-map"][str(s)] if point[0] >= goal)
        lines.append((f"annealed map, 2 CPU cores, {cpu[2]} iterations", 1 / cpu[1], cpu[0]))
        part = many[:10_000]
        with sparsect.backend.devices.tensor_cores(True):
            seconds = timed(lambda s=s, part=part: batched_omp(operator, part, s), 1)
            x = batched_omp(operator, part, s)
        left = (operator.forward(x) - part).norm(dim=1)
        lines.append(("batched OMP, GPU, TF32", part.shape[0] / seconds, snr(left, part)))
        for budget in BUDGETS:
            seconds = timed(lambda s=s, budget=budget: solved(operator, many, s, budget), 1)
            reached = snr(solved(operator, many, s, budget)[0], many)
            lines.append((f"annealed map, GPU, {budget} iterations", many.shape[0] / seconds, reached))
        for label, rate, reached in lines:
            mark = "**" if "GPU" in label and reached >= goal else ""
            yield f"| {label} | {s} | {mark}{rate:,.0f}{mark} | {reached:.2f} | {rate * each:,.1f} |"


def main():
    train, val = sys.argv[1:]
    # Twenty iterations of ADMM, as in a round of learning, are far from an answer in a few rows.
    warnings.simplefilter("ignore", sparsect.PoorFitWarning)
    dictionary = sparsect.load_dictionary()
    operator = sparsect.as_operator(torch.from_numpy(dictionary.Phi).cuda())
    rows = torch.from_numpy(signals(val, 20, 1)[:2000]).cuda()
    y = rows.repeat(ROWS // rows.shape[0], 1)
    speed, gpu = bandwidth(), torch.cuda.get_device_name()
    with machine.Report(HERE / "results" / "gpu.md", "On a GPU", ("torch", "triton", "numpy"), gpu) as report:
        report.section(
            "One iteration",
            f"{ROWS} patches, the bundled 400x1000 dictionary, s = 100. The floor: the products alone, as measured "
            f"here, and the bytes that other kernels must move at the bandwidth of a copy, {speed / 1e12:.2f} TB/s.",
            iteration_table(operator, y, speed),
        )
        report.section(
            "Precision of products",
            "Errors are relative. Converged: the Difference Map at beta = 0.14 on 2,000 noiseless random problems, "
            "400x1000, s = 100, to the default tolerance of 1e-4, and the largest error of x where it did. Annealed: "
            "250 iterations on 2,000 val patches. ADMM: the objective after 20 iterations on them, against float32's. "
            "Atoms: error of a dictionary of 500 after 3 rounds.",
            accuracy_table(operator, rows),
        )
        report.section(
            "Dictionary learning",
            "10 million 20x20 patches of the train photographs, 1,000 atoms, 20 iterations of ADMM, everything a round "
            "takes: drawing patches, coding, statistics, update, factoring, checkpoint. Three rounds after the first.",
            learning_table(train),
        )
        report.section(
            "A photograph of 24 megapixels",
            "6000x4000 pixels, three channels, one of val side by side with itself; a JPEG file read and another one "
            "written; s = 100, the annealed map; in a process that has reconstructed one before.",
            photograph_table(val),
        )
        report.section(
            "Denoising and inpainting one megapixel",
            "1000x1000 pixels, one photograph of val side by side with itself, sigma 25 of 255, or half of the pixels "
            "missing; from a NumPy array to another.",
            denoising_table(val),
        )
        report.section(
            "Patches a second",
            "2,000 val patches, 50 times over on the GPU; final fits included. Those of the CPU are from "
            "against-peers.md, another machine. Bold: as good as SPAMS or better.",
            rivals_table(operator, rows),
        )


if __name__ == "__main__":
    main()
