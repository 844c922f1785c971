"""Learning and coding on Dask: the dictionary is that of one machine, whatever happens to workers, files and disks."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import sparsect
from sparsect import InputError, gpu_options, images
from sparsect.backend.devices import product_precision
from sparsect.dictionary import ArraySource, DaskSource, learn
from sparsect.dictionary.cluster import Cluster
from sparsect.images import PatchSource

# Whoever is killed leaves sockets and tasks behind.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
ROUNDS = 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name in ("chelsea", "coffee", "camera"):
        images.write_image(folder / f"{name}.png", images.resize(images.sample(name), 200))
    return folder


def patches(photos):
    return PatchSource(images.ImageFolder(photos, 8), 8, 3000, rng=1, batch_size=250)


@pytest.fixture(scope="module")
def expected(photos):
    return learn(patches(photos), 70, rounds=ROUNDS)


@pytest.fixture(scope="module")
def cluster():
    with Cluster(workers=2) as running:
        yield running


@contextlib.contextmanager
def processes(*commands):
    """Commands that run until the block ends."""
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()


def assert_same_atoms(found, expected):
    """Atoms are equal but for the rounding of single precision, which rounds of learning magnify.

    One batch more or less changes them by 1e-2.
    """
    np.testing.assert_allclose(found, expected, atol=1e-4)


def scheduler(file, port=0):
    options = ("--host", "127.0.0.1", "--port", str(port), "--scheduler-file", str(file), "--no-dashboard")
    return [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]


def worker(file):
    options = ("--nthreads", "1", "--no-dashboard", "--death-timeout", "60", "--no-nanny")
    return [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), *options]


def test_one_two_and_four_workers_give_the_dictionary_of_one_machine(photos, expected, cluster):
    with Cluster(workers=1) as one, Cluster(workers=4) as four:
        for running in (one, cluster, four):
            steps = []
            found = learn(
                patches(photos), 70, rounds=ROUNDS, cluster=running, progress=lambda step, seen=steps: seen.append(step)
            )
            assert_same_atoms(found.Phi, expected.Phi)
            assert found.rounds[-1]["error"] == pytest.approx(expected.rounds[-1]["error"], rel=1e-5)
            assert {step.batch for step in steps if step.round == 1} >= set(range(2, 12))
        assert cluster.dashboard.startswith("http://127.0.0.1:")


def test_what_travels_between_workers_does_not_grow_with_the_patches(photos, cluster):
    """No more than the dictionary, the source and a sum for each share, for twelve batches and for a hundred."""
    sums = 8 * (70 * 70 + 70 * 64 + 70)
    for size in (3000, 25_000):
        source = PatchSource(images.ImageFolder(photos, 8), 8, size, rng=1, batch_size=250)
        before = sum(cluster.client.run(_received).values())
        learn(source, 70, rounds=1, code_iter=2, cluster=cluster)
        moved = sum(cluster.client.run(_received).values()) - before
        assert sums <= moved < 8 * 1.2 * sums + 2 * 4 * 70 * 64


def _received(dask_worker):
    return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)


def test_validation_and_other_coders(photos, cluster):
    settings = {
        "rounds": 1,
        "coder": sparsect.OrthogonalMatchingPursuit(),
        "sparsity": 3,
        "validation": patches(photos),
    }
    here, there = learn(patches(photos), 70, **settings), learn(patches(photos), 70, **settings, cluster=cluster)
    assert_same_atoms(there.Phi, here.Phi)
    assert there.rounds[0]["validation_error"] == pytest.approx(here.rounds[0]["validation_error"])


def test_a_worker_killed_in_the_middle_of_a_round(photos, expected):
    killed = []
    with Cluster(workers=2) as running:

        def kill(step):
            if step.round == 2 and step.batch == 4 and not killed:
                killed.append(min(running.client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        found = learn(patches(photos), 70, rounds=ROUNDS, cluster=running, progress=_in_a_thread(kill))
        assert killed
    assert_same_atoms(found.Phi, expected.Phi)


def _in_a_thread(function):
    """Dask must not be waited for where its own messages arrive."""
    from threading import Thread

    return lambda step: Thread(target=function, args=(step,)).start()


def test_a_scheduler_restarted_between_rounds(photos, expected, tmp_path):
    file, checkpoint = tmp_path / "scheduler.json", tmp_path / "mine.npz"
    with processes(scheduler(file), worker(file)) as (first, _), Cluster(wait_for(file)) as running:

        def stop(step):
            if step.round == 2 and step.batch == 1:
                os.kill(first.pid, signal.SIGKILL)

        with pytest.raises(InputError, match=r"scheduler: the connection.* was lost; completed results are kept"):
            learn(patches(photos), 70, rounds=ROUNDS, cluster=running, checkpoint=checkpoint, progress=stop)
    assert len(sparsect.load_dictionary(checkpoint).rounds) == 1
    file.unlink()
    # Its worker comes later than the call that waits for it.
    with (
        processes(scheduler(file)),
        Cluster(wait_for(file)) as running,
        processes(worker(file)),
    ):
        assert running.threads == 0
        found = learn(patches(photos), 70, rounds=ROUNDS, cluster=running, checkpoint=checkpoint)
    assert_same_atoms(found.Phi, expected.Phi)


def wait_for(file):
    for _ in range(300):
        if file.exists():
            return str(file)
        time.sleep(0.1)
    raise TimeoutError(file)


def test_a_partition_that_cannot_be_read(photos, cluster, tmp_path):
    for photograph in photos.iterdir():
        (tmp_path / photograph.name).write_bytes(photograph.read_bytes())
    checkpoint = tmp_path / "mine.npz"
    learn(patches(tmp_path), 70, rounds=1, checkpoint=checkpoint)
    source, before = patches(tmp_path), (tmp_path / "coffee.png").read_bytes()
    (tmp_path / "coffee.png").write_bytes(before[: len(before) // 2])

    with pytest.raises(InputError, match=r"coffee.png: a damaged image"):
        cluster.gather(
            sparsect.load_dictionary(checkpoint), source, sparsect.ADMM(), 70, 5, np.zeros(64), lambda done: None
        )
    (tmp_path / "coffee.png").write_bytes(before)
    resumed = learn(patches(tmp_path), 70, rounds=2, checkpoint=checkpoint, cluster=cluster)
    assert_same_atoms(resumed.Phi, learn(patches(tmp_path), 70, rounds=2).Phi)


def test_a_full_disk_at_checkpoint_time(photos, tmp_path):
    """Files beyond a size cannot be written, as on a disk that is full."""
    options = ("--atoms", "70", "--patch", "8", "--patches", "3000", "--batch-size", "250", "--seed", "1", "--quiet")
    options += ("--objective", "lp")

    def run(rounds, *where, **more):
        command = [sys.executable, "-m", "sparsect", "learn", str(photos), *options, "--rounds", str(rounds), *where]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, **more)

    assert run(1).returncode == 0
    kept = (tmp_path / "dictionary.npz").read_bytes()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # noqa: E731
    full = run(2, "--scheduler", "--workers", "2", preexec_fn=limit)
    assert full.returncode == 2
    assert "dictionary.npz: cannot be written" in full.stderr
    assert (tmp_path / "dictionary.npz").read_bytes() == kept
    assert list(tmp_path.iterdir()) == [tmp_path / "dictionary.npz"]
    assert run(2).returncode == 0
    unbroken = learn(patches(photos), 70, rounds=2, rng=1)
    assert_same_atoms(sparsect.load_dictionary(tmp_path / "dictionary.npz").Phi, unbroken.Phi)


@pytest.mark.numerical
def test_dask_arrays(rng):
    X = rng.standard_normal((600, 16)).astype(np.float32)
    chunked = da.from_array(X, chunks=(50, 8))
    # The same atoms, although the array is divided otherwise.
    expected = learn(ArraySource(X), 20, sparsity=3, rounds=2)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as local, Client(local):
        learner = sparsect.DictionaryLearner(n_atoms=20, rounds=2, sparsity=3).fit(chunked)
        codes = learner.transform(chunked)
        assert codes.chunks == ((50,) * 12, (20,))
        ours = codes.compute()
    assert_same_atoms(learner.dictionary_.Phi, expected.Phi)
    assert ours.format == "csr"
    np.testing.assert_allclose(ours.toarray(), learner.transform(X).toarray(), atol=1e-5)
    np.testing.assert_allclose(learner.inverse_transform(codes).compute(), learner.inverse_transform(ours), atol=1e-5)
    with pytest.raises(InputError, match=r"X` must .*\(n_samples, 16\).*got shape \(600, 15\)"):
        learner.transform(chunked[:, :15])
    assert DaskSource(chunked).provenance == DaskSource(da.from_array(X, chunks=(50, 8))).provenance


@pytest.mark.numerical
def test_dask_arrays_with_missing_entries(rng):
    """Parts of nonnegative signals that are missing are restored by nonnegative atoms, learned on a cluster."""
    atoms = rng.random((8, 24)) * (rng.random((8, 24)) < 0.3) + 0.01
    signals = (rng.random((400, 8)) * (rng.random((400, 8)) < 0.25) + 0.01) @ atoms
    lost = rng.integers(0, 6, (400, 1)) == np.arange(24) // 4
    X = da.from_array(np.where(lost, np.nan, signals), chunks=(80, 12))
    options = {"n_atoms": 8, "sparsity": 3, "rounds": 9, "nonnegative_codes": True, "nonnegative_atoms": True}
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as local, Client(local):
        learner = sparsect.DictionaryLearner(missing="nan", **options).fit(X)
        codes = learner.transform(X)
        restored = learner.inverse_transform(codes).compute()
        with pytest.raises(InputError, match="signals, chunk 0` must have finite entries"):
            sparsect.DictionaryLearner(**options).fit(X)
        nothing = da.where(np.arange(400)[:, None] == 170, np.nan, X)
        with pytest.raises(InputError, match=r"signals, chunk 2` must have at least one .*, got only NaN in row 10"):
            sparsect.DictionaryLearner(missing="nan", **options).fit(nothing)
    assert learner.components_.min() >= 0
    assert codes.compute().min() >= 0
    means = np.broadcast_to(np.where(lost, 0, signals).sum(axis=0) / (~lost).sum(axis=0), signals.shape)
    errors = [np.linalg.norm(guess[lost] - signals[lost]) for guess in (restored, means)]
    assert errors[0] < 0.5 * errors[1]


def test_dask_arrays_of_small_integers_are_not_computed_to_code_others(rng):
    X = rng.integers(0, 255, (200, 16), dtype=np.uint8)
    np.testing.assert_array_equal(DaskSource(da.from_array(X, chunks=(50, 16))).batch(1), X[50:100])

    def never(block):
        raise AssertionError("computed")

    lazy = da.from_array(X, chunks=(50, 16)).map_blocks(never, dtype=np.float64, meta=np.empty((0, 0)))
    assert sparsect.SparseCoder(sparsity=3).fit(lazy).n_features_in_ == 16


def test_what_a_worker_says(cluster):
    """Errors of tasks are told from those of the cluster, and name the chunk; options for a GPU get there."""

    def read(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 1:
            raise FileNotFoundError("no such part: 1.dat")
        return block

    X = da.random.default_rng(0).standard_normal((400, 16), chunks=(100, 16))
    broken = DaskSource(X.map_blocks(read, meta=np.empty((0, 0))))
    atoms = sparsect.Dictionary(np.eye(16, 20) + 0.1)
    gather = lambda source: cluster.gather(atoms, source, sparsect.ADMM(), 20, 2, np.zeros(16), lambda done: None)  # noqa: E731
    with pytest.raises(InputError, match=r"a worker failed: FileNotFoundError: no such part: 1.dat"):
        gather(broken)
    with pytest.raises(InputError, match=r"signals, chunk 3` must .*got 16 entries that are NaN"):
        gather(DaskSource(da.where(da.arange(400, chunks=100)[:, None] == 350, np.nan, X)))
    said = []
    with gpu_options(precision="tf32"):
        cluster.each(_precision, atoms, [0], (), lambda item, answer: said.append(answer))
    assert said == ["tf32"]


def _precision(dictionary, item):
    return product_precision()


def test_bad_input(cluster, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(sparsect.dictionary.cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match="2 dimensions"):
        DaskSource(da.ones(5))
    with pytest.raises(InputError, match=r"signals` must be a Dask array, got an object of type ndarray"):
        DaskSource(np.ones((5, 4)))
    X = da.from_array(rng.standard_normal((10, 4)), chunks=(5, 4))
    with pytest.raises(InputError, match="compute_chunk_sizes"):
        DaskSource(X[X[:, 0] > 0])
    big = ArraySource(rng.standard_normal((60_000, 40)))
    with pytest.raises(InputError, match="or a Dask array"):
        learn(big, 5, rounds=1, cluster=cluster)
    with pytest.raises(InputError, match=r"scheduler` must .*got 'tcp:"), Cluster("tcp://127.0.0.1:1"):
        pass
    with pytest.raises(InputError, match=r"scheduler` must .*got 'nonsense"), Cluster("nonsense://x"):
        pass
    (tmp_path / "scheduler.json").write_text("{}")
    with pytest.raises(InputError, match="scheduler` must"), Cluster(str(tmp_path / "scheduler.json")):
        pass
    with pytest.raises(InputError, match=r"tls` must .*got 2 names"):
        Cluster("tls://127.0.0.1:1", tls=("a", "b"))
    with pytest.raises(InputError, match="no such file"), Cluster("tls://127.0.0.1:1", tls=("a", "b", "c")):
        pass
    with pytest.raises(InputError, match="workers"):
        Cluster(workers=0)
    with pytest.raises(InputError, match="cluster: not open"):
        learn(ArraySource(np.ones((10, 4))), 2, rounds=1, cluster=Cluster(workers=1))
