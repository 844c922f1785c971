"""Codes of large sets, partition by partition: from every kind of input, resumed, and with parts that are broken."""

import json
import os

import numpy as np
import pytest
import scipy.sparse
import zarr

import sparsect
from sparsect import InputError, images
from sparsect.backend.locks import reserved
from sparsect.dictionary.cluster import Cluster
from sparsect.images.coding import Settings, code, partitions

pytestmark = [pytest.mark.numerical, pytest.mark.slow]

SETTINGS = Settings(sparsect.OrderRecursiveMatchingPursuit(), 5)


@pytest.fixture(scope="module")
def dictionary():
    atoms = np.random.default_rng(0).standard_normal((64, 100)).astype(np.float32)
    return sparsect.Dictionary(atoms / np.linalg.norm(atoms, axis=0))


@pytest.fixture(scope="module")
def signals():
    return np.random.default_rng(1).standard_normal((230, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name in ("chelsea", "camera"):
        images.write_image(folder / "inner" / f"{name}.png", images.resize(images.sample(name), 60))
    return folder


def stored(kind, signals, folder):
    """The signals in files of some kind, and the names that their codes will have."""
    if kind == "zarr":
        array = zarr.create_array(folder / "x.zarr", shape=signals.shape, chunks=(50, 64), dtype=signals.dtype)
        array[:] = signals
        return folder / "x.zarr", ["x-00000", "x-00001", "x-00002"]
    if kind == "one file":
        np.save(folder / "x.npy", signals)
        return folder / "x.npy", ["x-00000", "x-00001", "x-00002"]
    for number in range(2):
        np.save(folder / f"{number}.npy", signals[115 * number : 115 * (number + 1)])
    return folder, ["0-00000", "0-00001", "1-00000", "1-00001"]


@pytest.mark.parametrize("kind", ["zarr", "one file", "folder"])
def test_rows(kind, signals, dictionary, tmp_path):
    source, names = stored(kind, signals, tmp_path)
    seen = []
    manifest = code(
        source, tmp_path / "out", dictionary, SETTINGS, rows=100, progress=lambda *progress: seen.append(progress)
    )
    assert list(manifest["parts"]) == names
    assert seen[-1] == (len(names), len(names))
    codes = scipy.sparse.vstack([scipy.sparse.load_npz(tmp_path / "out" / f"{name}.npz") for name in names])
    expected = sparsect.recover(dictionary.Phi, signals, 5, SETTINGS.solver, refit=True)
    np.testing.assert_allclose(codes.toarray(), expected.x, atol=1e-5)
    assert sum(part["nonzeros"] for part in manifest["parts"].values()) == codes.nnz
    _, *lines = (tmp_path / "out" / "codes.jsonl").read_text().splitlines()
    assert dict(map(json.loads, lines)) == manifest["parts"]


def test_photographs(photos, dictionary, tmp_path):
    manifest = code(photos, tmp_path, dictionary, SETTINGS)
    assert set(manifest["parts"]) == {"inner-chelsea", "inner-camera"}
    seen = images.load_codes(tmp_path / "inner-chelsea.npz").image(dictionary)
    original = images.read_image(photos / "inner" / "chelsea.png")
    expected = images.reconstruct(original, 5, SETTINGS.solver, dictionary=dictionary)
    np.testing.assert_allclose(seen, expected.image, atol=1e-4)
    assert manifest["parts"]["inner-chelsea"]["snr_db"] == pytest.approx(expected.patch_snr_db, abs=1e-3)


def test_what_is_there_is_kept(signals, dictionary, tmp_path):
    source, names = stored("one file", signals, tmp_path)
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    kept, again = tmp_path / "out" / f"{names[0]}.npz", tmp_path / "out" / f"{names[1]}.npz"
    before, content = kept.stat().st_mtime_ns, again.read_bytes()
    again.unlink()
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    assert kept.stat().st_mtime_ns == before
    assert again.exists()
    assert len(again.read_bytes()) == len(content)
    np.save(source, 2 * signals)
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    changed = scipy.sparse.load_npz(kept)
    expected = sparsect.recover(dictionary.Phi, 2 * signals[:100], 5, SETTINGS.solver, refit=True)
    np.testing.assert_allclose(changed.toarray(), expected.x, atol=1e-5)
    with pytest.raises(InputError, match="other values of sparsity"):
        code(source, tmp_path / "out", dictionary, Settings(SETTINGS.solver, 6), rows=100)
    (tmp_path / "out" / "codes.jsonl").write_text("{")
    with pytest.raises(InputError, match=r"codes\.jsonl` must be a journal of finished tasks, got '{'"):
        code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)


@pytest.mark.parametrize("damage", ["cut", "changed", "of another", "made up"])
def test_what_is_damaged_is_coded_again(signals, dictionary, tmp_path, damage):
    source, names = stored("one file", signals, tmp_path)
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    path = tmp_path / "out" / f"{names[0]}.npz"
    before, content = scipy.sparse.load_npz(path), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    other = (tmp_path / "out" / f"{names[2]}.npz").read_bytes()
    if damage == "made up":
        arrays = dict(np.load(path))
        arrays["indptr"][1] = 10**6
        np.savez(path, **arrays)
    else:
        path.write_bytes({"cut": content[: len(content) // 2], "changed": content, "of another": other}[damage])
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    np.testing.assert_array_equal(scipy.sparse.load_npz(path).toarray(), before.toarray())


@pytest.mark.parametrize("outcome", [3, "x", None, {}, {"rows": "3", "nonzeros": 1, "version": ""}], ids=range(5))
def test_damaged_journals_are_refused(signals, dictionary, tmp_path, outcome):
    np.save(tmp_path / "x.npy", signals[:5])
    code(tmp_path / "x.npy", tmp_path / "out", dictionary, SETTINGS)
    with (tmp_path / "out" / "codes.jsonl").open("a") as stream:
        stream.write(json.dumps(["y", outcome]) + "\n")
    with pytest.raises(InputError, match=r"codes\.jsonl` must hold the result of a task in line 3"):
        code(tmp_path / "x.npy", tmp_path / "out", dictionary, SETTINGS)


def test_a_folder_that_another_process_writes_to_is_refused(signals, dictionary, tmp_path):
    np.save(tmp_path / "x.npy", signals[:5])
    with reserved(tmp_path / "out" / "codes.jsonl"), pytest.raises(InputError, match="another process is writing"):
        code(tmp_path / "x.npy", tmp_path / "out", dictionary, SETTINGS)


def test_links_that_lead_nowhere_and_pipes_are_named(photos, dictionary, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "camera.png").write_bytes((photos / "inner" / "camera.png").read_bytes())
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    (folder / "round.png").symlink_to(folder / "round.png")
    os.mkfifo(folder / "pipe.png")
    manifest = code(folder, tmp_path / "out", dictionary, SETTINGS)
    assert list(manifest["parts"]) == ["camera"]
    assert "gone.png: no such file" in manifest["failed"]["gone"]
    assert "round.png: cannot be read (Too many levels" in manifest["failed"]["round"]
    assert "must be a regular file, got a device, pipe or socket" in manifest["failed"]["pipe"]
    (folder / "gone.npy").symlink_to(folder / "nowhere.npy")
    with pytest.raises(InputError, match=r"gone\.npy: no such file"):
        code(folder, tmp_path / "out", dictionary, SETTINGS)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(InputError, match=r"pipe\.npy` must .*got a device, pipe or socket"):
        code(tmp_path / "pipe.npy", tmp_path / "out", dictionary, SETTINGS)


def test_a_part_that_cannot_be_coded_does_not_stop_the_others(photos, dictionary, tmp_path):
    for photograph in (photos / "inner").iterdir():
        (tmp_path / "in" / photograph.name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / photograph.name).write_bytes(photograph.read_bytes())
    parts = partitions(tmp_path / "in", 64)
    assert len(parts) == 2
    images.write_image(tmp_path / "in" / "small.png", np.zeros((4, 4)))
    manifest = code(tmp_path / "in", tmp_path / "out", dictionary, SETTINGS)
    assert set(manifest["parts"]) == {"chelsea", "camera"}
    assert "at least 8x8" in manifest["failed"]["small"]


def test_a_zarr_array_that_has_changed_is_coded_again(signals, dictionary, tmp_path):
    source, names = stored("zarr", signals, tmp_path)
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    before = scipy.sparse.load_npz(tmp_path / "out" / f"{names[0]}.npz")
    zarr.open_array(source, mode="r+")[:] = 2 * signals
    code(source, tmp_path / "out", dictionary, SETTINGS, rows=100)
    after = scipy.sparse.load_npz(tmp_path / "out" / f"{names[0]}.npz")
    np.testing.assert_allclose(after.toarray(), 2 * before.toarray(), atol=1e-4)


def test_what_there_is(signals, dictionary, photos, tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", signals[:5])
    (tmp_path / "bad.jpg").write_text("nonsense")
    monkeypatch.chdir(tmp_path)
    parts = partitions(".", 64)
    assert [part.name for part in parts] == ["a-x", "b-x", "bad"]
    assert all(part.path.startswith(str(tmp_path)) for part in parts)
    assert [part.name for part in partitions(photos / "inner" / "camera.png", 64)] == ["camera"]
    manifest = code(".", tmp_path / "out", dictionary, SETTINGS)
    assert "bad.jpg: not an image" in manifest["failed"]["bad"]
    np.save(tmp_path / "a-x.npy", signals[:5])
    with pytest.raises(InputError, match="whose codes would be written to the same file"):
        code(".", tmp_path / "out", dictionary, SETTINGS)
    with pytest.raises(InputError, match="other values of input"):
        code("a", tmp_path / "out", dictionary, SETTINGS)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="nothing to code"):
        code("none", tmp_path / "out", dictionary, SETTINGS)


def test_a_call_that_made_nothing_leaves_no_conditions(photos, dictionary, tmp_path):
    assert not code(photos, tmp_path, dictionary, Settings(SETTINGS.solver, 5, stride=0))["parts"]
    assert len(code(photos, tmp_path, dictionary, SETTINGS)["parts"]) == 2


def test_signals_without_a_signal_to_noise_ratio(dictionary, tmp_path):
    np.save(tmp_path / "nothing.npy", np.zeros((3, 64)))
    manifest = code(tmp_path / "nothing.npy", tmp_path / "out", dictionary, SETTINGS)
    assert manifest["parts"]["nothing"].items() >= {"rows": 3, "nonzeros": 0, "snr_db": None}.items()


def test_bad_input(signals, dictionary, tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        code(tmp_path / "nowhere", tmp_path / "out", dictionary, SETTINGS)
    np.save(tmp_path / "other.npy", signals[:, :60])
    with pytest.raises(InputError, match=r"\(rows, 64\).*shape \(230, 60\)"):
        code(tmp_path / "other.npy", tmp_path / "out", dictionary, SETTINGS)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(InputError, match=r"objects.npy: damaged.*Python objects"):
        code(tmp_path / "objects.npy", tmp_path / "out", dictionary, SETTINGS)
    for content in (b"\x93NUMPY", (tmp_path / "other.npy").read_bytes().replace(b"(230, 60), }", b"(230, 60  }")):
        (tmp_path / "damaged.npy").write_bytes(content)
        with pytest.raises(InputError, match=r"damaged.npy: damaged, or not of the type that its name suggests"):
            code(tmp_path / "damaged.npy", tmp_path / "out", dictionary, SETTINGS)
    np.save(tmp_path / "large.npy", np.full((2, 64), 1e300))
    manifest = code(tmp_path / "large.npy", tmp_path / "out", dictionary, SETTINGS)
    assert "infinite" in manifest["failed"]["large"]
    bad = signals.copy()
    bad[120, 3] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    manifest = code(tmp_path / "nan.npy", tmp_path / "out", dictionary, SETTINGS, rows=100)
    assert list(manifest["failed"]) == ["nan-00001"]
    assert "NaN" in manifest["failed"]["nan-00001"]


def test_on_a_cluster(signals, dictionary, tmp_path):
    source, names = stored("folder", signals, tmp_path)
    here = code(source, tmp_path / "here", dictionary, SETTINGS, rows=100)
    with Cluster(workers=2) as cluster:
        there = code(source, tmp_path / "there", dictionary, SETTINGS, rows=100, cluster=cluster)
    assert there["parts"].keys() == here["parts"].keys() == set(names)
    for name in names:
        ours, theirs = (scipy.sparse.load_npz(tmp_path / folder / f"{name}.npz") for folder in ("there", "here"))
        np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-6)


def test_command_line(called, signals, dictionary, tmp_path):
    np.save(tmp_path / "x.npy", signals)
    dictionary.save(tmp_path / "d.npz")
    arguments = ("-d", "d.npz", "-s", "5", "--method", "ormp", "--rows", "100")
    done = called("code", "x.npy", *arguments)
    assert done.returncode == 0, done.stderr
    assert "230 signals in 3 partitions, 5.0 atoms each" in done.stdout
    assert called("code", "x.npy", *arguments, "--scheduler", "--workers", "1", "--out", "more").returncode == 0
    assert called("code", "x.npy", "-d", "d.npz", "-s", "101").returncode == 2
    assert "`--workers` and `--tls`" in called("code", "x.npy", "--workers", "2").stderr
    bad = signals.copy()
    bad[0] = np.inf
    np.save(tmp_path / "bad.npy", bad)
    failed = called("code", "bad.npy", *arguments, "--out", "bad")
    assert failed.returncode == 2
    assert "1 partitions could not be coded; bad-00000" in failed.stderr


@pytest.mark.parametrize("source", ["signals", "photographs"])
def test_nonnegative_codes(source, signals, photos, dictionary, tmp_path):
    np.save(tmp_path / "x.npy", signals)
    nonnegative = sparsect.sets.Sparse(5, nonnegative=True)
    settings = Settings(sparsect.AnnealedDifferenceMap("approximation"), nonnegative, max_iter=20)
    manifest = code(tmp_path / "x.npy" if source == "signals" else photos, tmp_path / "out", dictionary, settings)
    assert not manifest["failed"]
    for name in manifest["parts"]:
        arrays = dict(np.load(tmp_path / "out" / f"{name}.npz"))
        assert arrays["data"].min() > 0
        assert np.diff(arrays["indptr"]).max() <= 5
    if source == "signals":
        options = {"max_iter": 20, "refit": True, "check_fit": False}
        expected = sparsect.recover(dictionary.Phi, signals, nonnegative, settings.solver, **options)
        codes = scipy.sparse.load_npz(tmp_path / "out" / "x.npz")
        np.testing.assert_allclose(codes.toarray(), expected.x, atol=1e-5)


def test_nonnegative_codes_from_the_command_line(called, signals, dictionary, tmp_path):
    np.save(tmp_path / "x.npy", signals)
    dictionary.save(tmp_path / "d.npz")
    arguments = ("code", "x.npy", "-d", "d.npz", "-s", "5", "--max-iter", "20")
    done = called(*arguments, "--nonnegative")
    assert done.returncode == 0, done.stderr
    assert scipy.sparse.load_npz(tmp_path / "codes" / "x.npz").min() >= 0
    # Codes of either sign are not mixed with them.
    done = called(*arguments)
    assert done.returncode == 2
    assert "got other values of sparsity" in done.stderr
    done = called(*arguments, "--nonnegative", "--method", "lars", "--out", "more")
    assert done.returncode == 2
    assert "`--method` must be one of auto" in done.stderr
    done = called(*arguments, "--stride", 0, "--out", "more")
    assert (done.returncode, "`--stride` must be a whole number of at least 1" in done.stderr) == (2, True)
    assert not (tmp_path / "more").exists()


def test_codes_have_the_sparsity_of_the_dictionary(called, photos, tmp_path):
    done = called("code", photos, "-d", "8x8", "--out", "eight")
    assert done.returncode == 0, done.stderr
    nonzeros = [np.diff(scipy.sparse.load_npz(file).indptr).max() for file in (tmp_path / "eight").glob("*.npz")]
    assert nonzeros
    assert max(nonzeros) <= 6
    # Without a limit in learning, a quarter of the numbers of a patch.
    sparsect.Dictionary(np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]).save(tmp_path / "own.npz")
    done = called("code", photos, "-d", "own.npz", "--out", "own")
    assert done.returncode == 0, done.stderr
    nonzeros = [np.diff(scipy.sparse.load_npz(file).indptr).max() for file in (tmp_path / "own").glob("*.npz")]
    assert max(nonzeros) <= 16
