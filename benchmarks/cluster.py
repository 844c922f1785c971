"""Learning on Dask beside one process: speed, what travels, memory, what tasks cost, and how far that would scale.

Run ``python benchmarks/cluster.py FOLDER`` with a folder of photographs; tables are printed and written to
results/cluster.md. Takes about six minutes on two cores. Nothing else should run beside it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import machine
import numpy as np

from sparsect import images
from sparsect.cluster import FAN, SHARES, Cluster
from sparsect.dictionary import PatchSource, learn

HERE = Path(__file__).parent
ROUNDS = 3
# Side of a patch, atoms, patches, patches of a batch.
LARGE, SMALL = (20, 1000, 20_000, 1000), (8, 256, 200_000, 10_000)
# What the model below is given besides: patches a second of one H200 (gpu.md), and a plain network.
GPU_RATE, NETWORK = 4_000_000, 1.25e9
ALONE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import cluster
source = cluster.patches(sys.argv[2], *json.loads(sys.argv[3]))
print(cluster.learned(source, json.loads(sys.argv[3])[1]))
"""


def patches(folder, side, atoms, count, batch):
    return PatchSource(images.Folder(folder, side), side, count, rng=1, batch_size=batch)


def learned(source, atoms, **options):
    """Seconds of all rounds but for drawing the first atoms."""
    moments = []

    def seen(step):
        moments.append(time.perf_counter())

    start = time.perf_counter()
    learn(source, atoms, rounds=ROUNDS, progress=seen, **options)
    return moments[-1] - start


def alone(folder, size, threads):
    """The same in a fresh process with so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(threads))
    command = [sys.executable, "-c", ALONE, str(HERE), folder, json.dumps(size)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def travelled():
    """Bytes that went through the loopback interface so far: between workers, scheduler and client."""
    with open("/proc/net/dev") as counters:
        return next(int(line.split()[1]) for line in counters if line.strip().startswith("lo:"))


def speed_table(folder):
    yield "| | one process, one thread | 2 workers of one thread | ratio | one process, 2 threads |"
    yield "|---|---|---|---|---|"
    for size in (SMALL, LARGE):
        side, atoms, count, batch = size
        one, two = alone(folder, size, 1), alone(folder, size, 2)
        with Cluster(workers=2) as cluster:
            learned(patches(folder, side, atoms, 2 * batch, batch), atoms, cluster=cluster)
            there = learned(patches(folder, *size), atoms, cluster=cluster)
        label = f"{count} patches of {side}x{side}, {atoms} atoms, {ROUNDS} rounds"
        yield f"| {label} | {one:.1f} s | {there:.1f} s | **{one / there:.2f}** | {two:.1f} s |"


def partition_table(folder):
    side, atoms, count, _ = SMALL
    with Cluster(workers=2) as cluster:
        learned(patches(folder, side, atoms, 4000, 1000), atoms, cluster=cluster)
        yield "| patches | batches | seconds a round | MB a round | MB for each task |"
        yield "|---|---|---|---|---|"
        for number, batch in ((count // 10, 5000), (count, 50_000), (count, 10_000), (count, 2000), (count, 500)):
            source, before = patches(folder, side, atoms, number, batch), travelled()
            seconds = learned(source, atoms, cluster=cluster) / ROUNDS
            bytes_ = (travelled() - before) / ROUNDS / 1e6
            tasks = min(source.batches, 2 * SHARES)
            yield f"| {number} | {source.batches} | {seconds:.2f} | {bytes_:.1f} | {bytes_ / tasks:.1f} |"
        peaks = cluster.client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        yield ""
        yield f"Memory of a worker at the most: {max(peaks.values()):.0f} MiB."


def cost_of_a_task(count=3000):
    """Seconds that the scheduler needs for a task that does nothing, many of them at once."""
    with Cluster(workers=2) as cluster:
        cluster.client.gather(cluster.client.map(lambda number: number, range(100), pure=False))
        start = time.perf_counter()
        cluster.client.gather(cluster.client.map(lambda number: number, range(count), pure=False))
        return (time.perf_counter() - start) / count


def round_seconds(count, workers, rate, each, atoms=1000, length=400):
    """A round on many workers: coding, what the scheduler does, and a tree of sums, one level after the other."""
    sums = 8 * (atoms * atoms + atoms * length)
    tasks = SHARES * workers
    levels, width, adding = 0, tasks, 0.0
    while width > 1:
        # A task fetches all but the sum that is there already, one after the other, and adds them up.
        adding += (min(FAN, width) - 1) * sums * (1 / NETWORK + 1 / 5e9)
        width, levels = -(-width // FAN), levels + 1
    # Dask hands a result on from worker to worker, twice as many having it each time.
    spreading = np.ceil(np.log2(workers + 1)) * 4 * atoms * length / NETWORK
    nodes = tasks + sum(-(-tasks // FAN**level) for level in range(1, levels + 1))
    factoring = 0.3
    return count / (workers * rate) + nodes * each + adding + spreading + factoring


def scale_table(rate, each):
    yield "| patches | workers | one core each | one GPU each |"
    yield "|---|---|---|---|"
    for count in (10**7, 10**10):
        for workers in (1, 100, 1000):
            seconds = [round_seconds(count, workers, speed, each) for speed in (rate, GPU_RATE)]
            yield f"| {count:,} | {workers} | {length(45 * seconds[0])} | {length(45 * seconds[1])} |"


def length(seconds):
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def main():
    folder = sys.argv[1]
    with machine.Report(HERE / "results" / "cluster.md", "On a cluster", ("numpy", "dask", "distributed")) as report:
        text = "Seconds for all rounds, drawing patches and updates included, the start of processes not."
        report.section("Two workers beside one process", text, speed_table(folder))
        side, atoms, *_ = SMALL
        report.section(
            "What travels",
            f"{side}x{side} patches, {atoms} atoms, 2 workers; bytes through the loopback interface, by whomever.",
            partition_table(folder),
        )
        each = cost_of_a_task()
        rate = 1 / (alone(folder, (20, 1000, 3000, 1000), 1) / ROUNDS / 3000)
        best = min(range(1, 20001), key=lambda workers: round_seconds(10**7, workers, rate, each))
        report.section(
            "How far it scales",
            f"45 rounds, 20x20 patches, 1,000 atoms, by a model: {rate:.0f} patches a second for a core, {GPU_RATE:,} "
            f"for a GPU, {1e3 * each:.2f} ms of the scheduler's time for a task, {SHARES} tasks for each worker and a "
            f"tree of sums of {FAN}, 11 MB each, over a network of {NETWORK / 1e9:.2f} GB/s. With cores, rounds of 10 "
            f"million patches get no shorter beyond {best} workers.",
            scale_table(rate, each),
        )


if __name__ == "__main__":
    main()
