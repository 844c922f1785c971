"""Learning on Dask beside one process: speed, what travels, memory, what tasks cost, and how far that would scale.

Run ``python benchmarks/cluster.py FOLDER`` with a folder of photographs; tables are printed and written to
results/cluster.md. Takes about twelve minutes on two cores. Nothing else should run beside it. With ``--minutes 60``
after it, an hour's worth of patches streams through two workers instead, and their memory goes to results/streaming.md.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import machine
import numpy as np

from sparsect import ADMM, images
from sparsect.dictionary import learn
from sparsect.dictionary.cluster import FAN, SHARES, Cluster
from sparsect.images import PatchSource

HERE = Path(__file__).parent
ROUNDS = 3
# Iterations of the coder where only memory counts.
FEW = 3
# Side of a patch, atoms, patches, patches of a batch.
LARGE, SMALL = (20, 1000, 20_000, 500), (8, 256, 200_000, 5000)
# What the model below is given besides: patches a second of a worker with one H200 (10 million in 2.35 s, measured with
# one worker), a plain network in bytes a second, and by how much the times of equal tasks differ.
GPU_RATE, NETWORK, SPREAD = 4_250_000, 1.25e9, 0.1
ALONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import cluster
side, atoms, count, batch = json.loads(sys.argv[3])
cluster.learned(cluster.patches(sys.argv[2], side, atoms, 2 * batch, batch), atoms)
print(cluster.learned(cluster.patches(sys.argv[2], side, atoms, count, batch), atoms))
"""


def patches(folder, side, atoms, count, batch):
    return PatchSource(images.ImageFolder(folder, side), side, count, rng=1, batch_size=batch)


def learned(source, atoms, **options):
    """Seconds of all rounds, drawing the first atoms included."""
    start = time.perf_counter()
    learn(source, atoms, rounds=ROUNDS, **options)
    return time.perf_counter() - start


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


def speed_table(folder, rates):
    """Times side by side; patches a second of one thread are put into ``rates``, by the side of a patch."""
    yield "| | one process, one thread | 2 workers of one thread | ratio | one process, 2 threads |"
    yield "|---|---|---|---|---|"
    for size in (SMALL, LARGE):
        side, atoms, count, batch = size
        with Cluster(workers=2) as cluster:
            learned(patches(folder, side, atoms, 2 * batch, batch), atoms, cluster=cluster)
            times = [
                (
                    alone(folder, size, 1),
                    learned(patches(folder, *size), atoms, cluster=cluster),
                    alone(folder, size, 2),
                )
                for _ in range(3)
            ]
        label = f"{count} patches of {side}x{side}, {atoms} atoms, {ROUNDS} rounds"
        for one, there, two in times:
            yield f"| {label} | {one:.1f} s | {there:.1f} s | {one / there:.2f} | {two:.1f} s |"
        ratio = sorted(one / there for one, there, _ in times)[1]
        rates[side] = ROUNDS * count / min(times)[0]
        yield f"| the middle one of the three | | | **{ratio:.2f}** | |"


def partition_table(folder):
    sizes = [(8, 256, 20_000, 500), *((8, 256, 200_000, batch) for batch in (500, 2000, 5000, 25_000, 100_000))]
    sizes += [(20, 1000, 2000, 250), (20, 1000, 20_000, 250), (20, 1000, 20_000, 2500)]
    with Cluster(workers=2) as cluster:
        for side, atoms, _, batch in (sizes[0], sizes[-1]):
            learned(patches(folder, side, atoms, 8 * batch, batch), atoms, cluster=cluster)
        yield "| side | patches | batches | tasks | seconds a round | patches a second | MB a round | MB a task |"
        yield "|---|---|---|---|---|---|---|---|"
        for side, atoms, count, batch in sizes:
            source, before = patches(folder, side, atoms, count, batch), travelled()
            seconds = min(learned(source, atoms, cluster=cluster) for _ in range(2)) / ROUNDS
            megabytes, tasks = (travelled() - before) / 2e6 / ROUNDS, len(tree(min(source.batches, 2 * SHARES)))
            cells = (side, count, source.batches, tasks, f"{seconds:.2f}", f"{count / seconds:,.0f}")
            yield f"| {' | '.join(map(str, cells))} | {megabytes:.1f} | {megabytes / tasks:.2f} |"


def overhead_table(folder):
    """Rounds with next to nothing to code: what is left is what a round costs."""
    yield "| | here, 2 threads | 2 workers | difference |"
    yield "|---|---|---|---|"
    for side, atoms in ((8, 256), (20, 1000)):
        source = patches(folder, side, atoms, 800, 100)
        with Cluster(workers=2) as cluster:
            options = {"code_iter": 1, "coder": ADMM(mu=2.0, lam=0.1)}
            for where in (None, cluster):
                learned(source, atoms, cluster=where, **options)
            here, there = (learned(source, atoms, cluster=where, **options) / ROUNDS for where in (None, cluster))
        yield f"| {side}x{side}, {atoms} atoms | {here:.2f} s | {there:.2f} s | {there - here:.2f} s |"


@contextlib.contextmanager
def slowed(pid, share):
    """A process that is stopped and continued all the time, so that it has this share of its time."""
    finished = threading.Event()

    def pulse():
        while not finished.is_set():
            for number, part in ((signal.SIGSTOP, 1 - share), (signal.SIGCONT, share)):
                os.kill(pid, number)
                time.sleep(0.2 * part)

    thread = threading.Thread(target=pulse)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


def slow_table(folder):
    side, atoms, *_ = size = SMALL
    yield "| the other worker has | seconds a round | at best | halves would take |"
    yield "|---|---|---|---|"
    with Cluster(workers=2) as cluster:
        learned(patches(folder, side, atoms, 4000, 1000), atoms, cluster=cluster)
        pid, whole = min(cluster.client.run(os.getpid).values()), None
        for share in (1.0, 0.5, 0.25, 0.1):
            with slowed(pid, share) if share < 1 else contextlib.nullcontext():
                seconds = learned(patches(folder, *size), atoms, cluster=cluster) / ROUNDS
            whole = whole or seconds
            bounds = f"{2 * whole / (1 + share):.1f} | {whole / share:.1f}"
            yield f"| {share:.0%} of its time | {seconds:.1f} | {bounds} |"


def cost_of_a_task(count=3000):
    """Seconds of a core that scheduler and client need for a task that does nothing, many of them at once."""
    with Cluster(workers=2) as cluster:
        cluster.client.gather(cluster.client.map(lambda number: number, range(100), pure=False))
        # Both are in this process; the workers, which are not, would share the two cores with them.
        times = []
        for _ in range(3):
            start = time.process_time()
            cluster.client.gather(cluster.client.map(lambda number: number, range(count), pure=False))
            times.append(time.process_time() - start)
        return min(times) / count


def tree(shares):
    """For every task of a round, the numbers of those it adds up: none for shares, which come first."""
    tasks, level = [[] for _ in range(shares)], list(range(shares))
    while len(level) > 1:
        groups = [level[start : start + FAN] for start in range(0, len(level), FAN)]
        level = list(range(len(tasks), len(tasks) + len(groups)))
        tasks += groups
    return tasks


def round_seconds(count, workers, rate, each, update, atoms=1000, length=400):
    """A round on many workers, simulated: free workers get shares, and sums are added up once all they need is there.

    The scheduler takes ``each`` for a task and does one thing at a time. A task that adds up sums fetches all but one
    of them, one after the other, over the network.
    """
    sums = 8 * (atoms * atoms + atoms * length)
    tasks, generate = tree(SHARES * workers), np.random.default_rng(0)
    parents = {child: task for task, children in enumerate(tasks) for child in children}
    missing = [len(children) for children in tasks]
    waiting, ready = SHARES * workers, []
    # Dask hands the dictionary on from worker to worker, twice as many having it each time.
    start = np.ceil(np.log2(workers + 1)) * 4 * atoms * length / NETWORK
    scheduler, free, events, share = start, workers, [], 0
    while True:
        while free and (ready or share < waiting):
            scheduler += each
            if ready:
                task = ready.pop()
                seconds = (len(tasks[task]) - 1) * sums * (1 / NETWORK + 1 / 5e9)
            else:
                task, share = share, share + 1
                seconds = count / waiting / rate * generate.lognormal(0, SPREAD)
            heapq.heappush(events, (scheduler + seconds, task))
            free -= 1
        now, task = heapq.heappop(events)
        scheduler, free = max(scheduler, now), free + 1
        if task not in parents:
            return scheduler + sums / NETWORK + update
        missing[parents[task]] -= 1
        if missing[parents[task]] == 0:
            ready.append(parents[task])


def scale_table(rates, each, update):
    yield "| patches | workers | one core each | used | one GPU each | used |"
    yield "|---|---|---|---|---|---|"
    for count in (10**7, 10**10):
        for workers in (1, 10, 100, 1000, 10_000):
            cells = []
            for rate in rates:
                seconds = round_seconds(count, workers, rate, each, update)
                cells.append(f"{length(45 * seconds)} | {count / (workers * rate) / seconds:.0%}")
            yield f"| {count:,} | {workers:,} | {' | '.join(cells)} |"
    for count in (10**7, 10**10):
        ends = []
        for rate, name in zip(rates, ("cores", "GPUs"), strict=True):
            numbers = [round(1.25**power) for power in range(53)]
            best = min(numbers, key=lambda workers: round_seconds(count, workers, rate, each, update))
            ends.append(f"{best:,} {name} ({length(45 * round_seconds(count, best, rate, each, update))})")
        yield ""
        yield f"{count:,} patches: the most that make it shorter are about {' and '.join(ends)}."


def length(seconds):
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def resident(pid):
    """MiB of memory that a process has now, and had at the most."""
    with open(f"/proc/{pid}/status") as status:
        sizes = dict(line.split(":") for line in status)
    return [int(sizes[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")]


def streaming_table(folder, minutes):
    """Memory of two workers while as many patches as they would code in so long stream through them."""
    side, atoms, _, batch = LARGE
    yield "| patches | minutes | worker 1 | worker 2 | this process |"
    yield "|---|---|---|---|---|"
    with Cluster(workers=2) as cluster:
        small, pids = (
            patches(folder, side, atoms, 20 * batch, batch),
            [*cluster.client.run(os.getpid).values(), os.getpid()],
        )
        learned(small, atoms, cluster=cluster)
        rate = ROUNDS * small.size / learned(small, atoms, cluster=cluster)
        source, seen, start = patches(folder, side, atoms, int(60 * minutes * rate), batch), [0], time.monotonic()
        options = {"rounds": 1, "code_iter": FEW, "progress": lambda step: seen.append(step.batch), "cluster": cluster}
        learning = threading.Thread(target=learn, args=(source, atoms), kwargs=options)
        learning.start()
        for part in range(1, 13):
            while learning.is_alive() and seen[-1] < part * source.batches / 12:
                learning.join(1)
            sizes = " | ".join("{:.0f} MiB (at most {:.0f})".format(*resident(pid)) for pid in pids)
            yield f"| {seen[-1] * batch:,} | {(time.monotonic() - start) / 60:.1f} | {sizes} |"
        learning.join()
    yield ""
    size = f"{source.size:,} patches, {4 * side**2 * source.size / 1e9:.1f} GB of them"
    yield f"{size}: {minutes:g} minutes at {rate:.0f} a second."


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="photographs")
    parser.add_argument(
        "--minutes", type=float, help="stream patches for so long through workers, and look at their memory alone"
    )
    given = parser.parse_args()
    folder, packages = given.folder, ("numpy", "dask", "distributed")
    if given.minutes is not None:
        with machine.Report(
            HERE / "results" / "streaming.md", "Patches that stream through workers", packages
        ) as report:
            text = (
                "One round of learning, 20x20 patches, 1,000 atoms, 2 workers of one thread: patches that they code "
                f"in the given time, but with {FEW} iterations instead of 20. Memory of each process."
            )
            report.section("Memory", text, streaming_table(folder, given.minutes))
        return
    with machine.Report(HERE / "results" / "cluster.md", "On a cluster", packages) as report:
        text = "Seconds for all rounds, drawing patches and updates included, the start of processes not; three times."
        rates = {}
        report.section("Two workers beside one process", text, speed_table(folder, rates))
        report.section(
            "What travels",
            "8x8 patches, 256 atoms, and 20x20 patches, 1,000 atoms; 2 workers; bytes through the loopback interface. "
            "There are 8 shares and the sum of them, fewer where there are fewer batches. The faster of two runs.",
            partition_table(folder),
        )
        text = "800 patches, one iteration of the coder: what a round costs besides coding."
        report.section("A round of nothing", text, overhead_table(folder))
        text = "8x8 patches as above; one of 2 workers is stopped and continued five times a second."
        report.section("A slow worker", text, slow_table(folder))
        each, rate, update = cost_of_a_task(), rates[20], 0.4
        report.section(
            "How far it scales",
            f"45 rounds, 20x20 patches, 1,000 atoms, simulated task by task: {rate:.0f} patches a second for a core "
            f"(as measured here), {GPU_RATE:,} for a GPU, {1e3 * each:.2f} ms of the scheduler's time for a task (as "
            f"measured here), {SHARES} shares for each worker, of times that differ by {SPREAD:.0%}, a tree of sums of "
            f"{FAN}, 11 MB each, over a network of {NETWORK / 1e9:.2f} GB/s, {update} s for the update. Used: part of "
            "the workers' time that is spent coding.",
            scale_table((rate, GPU_RATE), each, update),
        )


if __name__ == "__main__":
    main()
