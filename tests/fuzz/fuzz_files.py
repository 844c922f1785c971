"""Files that are damaged or made up: each kind written once, then changed in some way and read."""

import io
import json
import shutil
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse
from fuzzing import answer, pick
from PIL import Image

import sparsect
from sparsect import images
from sparsect.backend import files
from sparsect.backend.journal import Journal
from sparsect.images import coding
from sparsect.paper.rows import Rows
from sparsect.run.checkpoint import CHECKSUM, checksum

# Values that stand for something else in the place of a number, or of a part of a JSON file.
VALUES = [
    None,
    True,
    "",
    "a",
    -1,
    0,
    1,
    2**31,
    2**63,
    10**40,
    0.5,
    1e300,
    float("nan"),
    float("inf"),
    [],
    {},
    [[0]],
    {"rows": 1},
]
SETTINGS = {"one": 1}
NUMBERS = np.random.default_rng(0).standard_normal((6, 4))


class Cases:
    """One file after another; called with a random generator and a list for notes on what was done."""

    def __init__(self, folder):
        # Files are written where they are read later on: some hold the names and the times of others.
        self.folder, self.whole = folder / "here", folder / "whole"
        self.folder.mkdir()
        Phi = NUMBERS[:4, :]
        self.dictionary = sparsect.Dictionary(Phi / np.linalg.norm(Phi, axis=0), [{"error": 0.5}], {"a": [1]})
        self.runs, self.others = {}, {}
        self._write_runs()
        self._write_arrays()
        self._write_images()
        self._write_folders()
        shutil.copytree(self.folder, self.whole)

    def __call__(self, rng, log):
        readers = pick(rng, self.runs, self.others)
        name = pick(rng, *readers)
        path, part = self.folder / name, name.partition("/")[0]
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        copy = shutil.copytree if "/" in name else shutil.copy2
        copy(self.whole / part, self.folder / part)
        for _ in range(pick(rng, 1, 1, 2)):
            change = pick(rng, *changes(name))
            log.append(f"{name}: {change.__name__}")
            path.write_bytes(change(rng, log, path.read_bytes()))
        readers[name](path)

    def _write_runs(self):
        """Checkpoints of every solver, in several precisions; some with rows that are done."""
        problem = sparsect.random_problem(10, 20, 3, snr_db=30, batch=4, rng=0)
        solvers = [
            *sparsect.METHODS,
            sparsect.DifferenceMap(1.0, sparsect.Relaxed(0.1)),
            sparsect.AnnealedDifferenceMap("approximation"),
        ]
        for number, method in enumerate(solvers):
            for dtype in (np.float64, np.float32, np.complex64):
                if dtype is np.complex64 and method == "lars":
                    continue
                path = f"run-{number}-{np.dtype(dtype)}.npz"
                y = problem.y.astype(dtype)
                y[1] = 0
                arguments = {
                    "Phi": problem.Phi.astype(dtype),
                    "y": y,
                    "sparsity": 3,
                    "method": method,
                    "tol": 1e-2,
                    "record_at": 2,
                }
                sparsect.recover(**arguments, max_iter=2 + number % 3, checkpoint=self.folder / path)
                self.runs[path] = partial(check_run, arguments)

    def _write_arrays(self):
        result = sparsect.recover(NUMBERS.T, np.ones((3, 4)), 2, max_iter=5, record_at=1)
        result.save(self.folder / "result.npz")
        self.dictionary.save(self.folder / "dictionary.npz")
        np.save(self.folder / "array.npy", NUMBERS)
        np.savez(self.folder / "several.npz", Phi=NUMBERS, y=NUMBERS[0])
        scipy.sparse.save_npz(self.folder / "sparse.npz", scipy.sparse.csr_array(NUMBERS * (NUMBERS > 0)))
        scipy.sparse.save_npz(self.folder / "columns.npz", scipy.sparse.coo_array(NUMBERS * (NUMBERS > 0)))
        scipy.io.savemat(
            self.folder / "array.mat",
            {"Phi": NUMBERS, "y": scipy.sparse.csc_array(np.eye(3)), "z": "words"},
            do_compression=True,
        )
        scipy.io.savemat(self.folder / "plain.mat", {"Phi": NUMBERS, "c": [{"a": 1}, 2]})
        scipy.io.savemat(self.folder / "old.mat", {"Phi": NUMBERS}, format="4")
        np.savetxt(self.folder / "table.csv", NUMBERS, delimiter=",", header="a,b,c,d", comments="")
        np.savetxt(self.folder / "table.tsv", NUMBERS, delimiter="\t", fmt="%.3f")
        np.savetxt(self.folder / "table.txt", NUMBERS)
        names = (
            "array.npy",
            "several.npz",
            "sparse.npz",
            "columns.npz",
            "array.mat",
            "plain.mat",
            "old.mat",
            "table.csv",
            "table.tsv",
            "table.txt",
        )
        self.others |= {
            "result.npz": check_result,
            "dictionary.npz": check_dictionary,
            **dict.fromkeys(names, check_array),
        }

    def _write_images(self):
        picture = np.random.default_rng(0).integers(0, 256, (7, 9, 3)).astype(np.uint8)
        for name in ("a.png", "a.jpg", "a.tif", "a.bmp", "a.webp"):
            images.write_image(self.folder / name, picture)
        Image.fromarray(picture).save(self.folder / "packed.tif", compression="tiff_lzw")
        Image.fromarray(picture).quantize(7).save(self.folder / "palette.png", transparency=1)
        Image.fromarray(picture).save(self.folder / "a.gif")
        Image.fromarray(picture[..., 0].astype(np.uint16)).save(self.folder / "deep.png")
        exif = Image.Exif()
        exif[0x0112] = 6
        Image.fromarray(picture).save(self.folder / "turned.jpg", exif=exif)
        names = (
            "a.png",
            "a.jpg",
            "a.tif",
            "a.bmp",
            "a.webp",
            "packed.tif",
            "palette.png",
            "a.gif",
            "deep.png",
            "turned.jpg",
        )
        codes = images.reconstruct(picture, 2, "omp", dictionary=self.dictionary).codes
        codes.save(self.folder / "codes.npz")
        self.others |= dict.fromkeys(names, check_image) | {"codes.npz": self._check_codes}

    def _write_folders(self):
        """What is written line by line or into a folder, and read when it goes on."""
        journal = Journal(self.folder / "journal.jsonl", SETTINGS, number_only)
        with journal.writing():
            for number in range(4):
                journal.add(f"task {number}", 0.25 * number)
        table = Rows(self.folder / "experiment", SETTINGS)
        with table.writing():
            for number in range(4):
                table.add(f"task {number}", [{"solver": "omp", "error": 0.5, "words": 'a "quoted", one'}] * number)
        (self.folder / "coded").mkdir()
        np.save(self.folder / "coded" / "signals.npy", NUMBERS)
        self._code(self.folder / "coded")
        self.others |= {
            "journal.jsonl": check_journal,
            "experiment/rows.jsonl": check_rows,
            "coded/codes.jsonl": self._check_coded,
            "coded/signals.npz": self._check_coded,
            "coded/signals.npy": self._check_coded,
        }

    def _code(self, folder):
        settings = coding.Settings(sparsect.OrthogonalMatchingPursuit(), 2)
        return answer(coding.code, folder / "signals.npy", folder, self.dictionary, settings)

    def _check_coded(self, path):
        folder = path.parent
        manifest = self._code(folder)
        assert set(manifest["parts"]) | set(manifest["failed"]) == {"signals"}
        if manifest["parts"]:
            matrix = scipy.sparse.load_npz(folder / "signals.npz")
            matrix.check_format(full_check=True)
            assert matrix.nnz == manifest["parts"]["signals"]["nonzeros"]

    def _check_codes(self, path):
        codes = answer(images.load_codes, path)
        image = answer(codes.image, self.dictionary)
        assert image.shape == codes.shape


def check_run(arguments, path):
    """A run goes on from a checkpoint: its answer is finite and sparse."""
    result = answer(sparsect.recover, **arguments, max_iter=12, checkpoint=path)
    assert np.isfinite(result.x).all(), "x is not finite"
    assert (np.count_nonzero(result.x, axis=1) <= 3).all(), "too many nonzeros"
    assert np.isfinite(result.residual_norm).all(), "the residual is not finite"


def check_result(path):
    result = answer(sparsect.load_result, path)
    assert np.isfinite(result.x).all()
    np.testing.assert_array_equal(result.support, result.x != 0)
    repr(result)


def check_dictionary(path):
    dictionary = answer(sparsect.load_dictionary, path)
    assert dictionary.Phi.ndim == 2
    assert np.isfinite(dictionary.Phi).all()
    repr(dictionary)
    answer(sparsect.recover, dictionary.operator, np.ones(dictionary.Phi.shape[0]), 1, max_iter=2)


def check_array(path):
    """Whatever the array is, ``recover`` takes or refuses it."""
    found = answer(files.read_array, path, prefer=("Phi",))
    shape = getattr(found, "shape", ()) or (1,)
    # A sparse matrix may be said to be of any size.
    if max(shape) < 1000:
        answer(sparsect.recover, found, np.ones(shape[0]), 1, "difference-map", max_iter=2)


def check_image(path):
    image = answer(images.read_image, path)
    assert image.dtype == np.float32
    assert ((image >= 0) & (image <= 1)).all()
    folder = answer(images.ImageFolder, path.parent)
    assert answer(folder.__getitem__, 0).shape == folder.shapes[0]


def number_only(result):
    if not isinstance(result, float):
        raise TypeError
    return result


def check_journal(path):
    journal = answer(Journal, path, SETTINGS, number_only)
    assert all(isinstance(result, float) for result in journal.results.values())
    with journal.writing():
        journal.add("task 1", 0.5)
    again = answer(Journal, path, SETTINGS, number_only)
    assert again.results.keys() == journal.results.keys()


def check_rows(path):
    table = answer(Rows, path.parent, SETTINGS)
    rows = table.ordered(["task 1"])
    assert all(isinstance(row, dict) for row in rows)
    answer(table.export, rows)


def changes(name):
    """Ways to change a file of that name."""
    suffix = Path(name).suffix
    # SciPy takes the types of numbers in such a file on trust, and crashes (scipy/scipy#25829).
    if suffix == ".mat" and name != "old.mat":
        return [cut_off]
    anything = [flip, cut_off, insert, remove, swap, fill, digits]
    if suffix == ".npz":
        return [*anything, member, *[array] * 12]
    if suffix in (".json", ".jsonl"):
        return [*anything, *[edited] * 7]
    return anything


def _span(rng, data):
    first, last = sorted(rng.integers(0, len(data) + 1, 2).tolist())
    return first, min(last, first + 64)


def flip(rng, log, data):
    changed = bytearray(data)
    for place in rng.integers(0, max(len(data), 1), pick(rng, 1, 2, 10)) if data else ():
        changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut_off(rng, log, data):
    return data[: rng.integers(0, len(data) + 1)]


def insert(rng, log, data):
    place = rng.integers(0, len(data) + 1)
    return data[:place] + rng.bytes(int(pick(rng, 1, 8, 100))) + data[place:]


def remove(rng, log, data):
    first, last = _span(rng, data)
    return data[:first] + data[last:]


def swap(rng, log, data):
    (first, last), (begin, end) = sorted([_span(rng, data), _span(rng, data)])
    begin, end = max(begin, last), max(end, last)
    return data[:first] + data[begin:end] + data[last:begin] + data[first:last] + data[end:]


def fill(rng, log, data):
    first, last = _span(rng, data)
    return data[:first] + pick(rng, b"\0", b"\xff", b"9", b"-") * (last - first) + data[last:]


def digits(rng, log, data):
    """Another number in a header or a text."""
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return data
    place = pick(rng, *places[:200])
    return data[:place] + pick(rng, b"0", b"9", b"99999999999", b"-1", b"1e999", b"nan", b"") + data[place + 1 :]


def member(rng, log, data):
    """A part of an archive changed, and archived as if nothing had happened."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except Exception:
        return data
    name = pick(rng, *parts) if parts else ""
    if parts:
        parts[name] = (
            pick(rng, flip, cut_off, insert, remove, swap, fill, digits)(rng, log, parts[name][:128])
            + parts[name][128:]
        )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for each, content in parts.items():
            archive.writestr(each, content)
    return stream.getvalue()


def array(rng, log, data):
    """Another array in an ``.npz`` file, its checksum, if it has one, made right."""
    try:
        arrays = dict(np.load(io.BytesIO(data), allow_pickle=False))
    except Exception:
        return data
    # What was changed before may be no array any more.
    arrays = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    sums = CHECKSUM in arrays
    arrays.pop(CHECKSUM, None)
    if not arrays:
        return data
    # What names the run is compared to the run at hand, which says little about what is read.
    name = pick(rng, *[name for name in arrays if name not in ("identity", "response")] or arrays)
    value = arrays[name]
    kind = pick(rng, *["entry"] * 6, "all", "dtype", "shape", "longer", "shorter", "none", "twice", "other")
    log.append(f"{name}: {kind}")
    special = {
        "f": [0.0, -1.0, 1e30, -1e30, 1e300, 1e-300, np.nan, np.inf, 1e9],
        "c": [0.0, 1e30, 1e30j, np.nan, 1e9, 1e300],
        "i": [-1, 0, 1, 2**31, 2**62, -(2**63), 100],
        "u": [0, 1, 2**31, 100],
    }
    with np.errstate(all="ignore"):
        if kind in ("entry", "all") and value.dtype.kind in special:
            value = value.copy()
            there = pick(rng, *special[value.dtype.kind])
            log.append(str(there))
            if kind == "all":
                value[...] = np.asarray(there).astype(value.dtype)
            elif value.size:
                value.flat[rng.integers(value.size)] = np.asarray(there).astype(value.dtype)
        elif kind in ("entry", "all") and value.dtype.kind == "b" and value.size:
            value = value.copy()
            value.flat[rng.integers(value.size)] ^= True
        elif kind in ("entry", "all") and value.ndim == 0:
            value = np.array(json.dumps(_replaced(rng, _parsed(str(value)))))
        elif kind == "dtype" and value.dtype.kind in "fciub":
            real = value.real if value.dtype.kind == "c" else value
            value = real.astype(pick(rng, np.float32, np.int8, np.complex128, np.bool_, str, ">f8", np.float16, "S8"))
        elif kind == "shape":
            value = pick(rng, value[None], value.ravel(), value.T, np.atleast_1d(value)[..., None])
        elif kind == "longer":
            value = np.concatenate([np.atleast_1d(value)] * 2, axis=-1)
        elif kind == "shorter":
            value = np.atleast_1d(value)[..., :-1]
        elif kind == "twice":
            value = np.atleast_1d(value)[np.zeros(np.atleast_1d(value).shape[0], int)]
        elif kind == "other":
            value = arrays[pick(rng, *arrays)]
    arrays[name] = value
    if kind == "none":
        del arrays[name]
    if sums:
        arrays[CHECKSUM] = np.array(checksum(arrays))
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def edited(rng, log, data):
    """Another value somewhere in JSON, or in one of the lines that are JSON."""
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    whole = _parsed(data.decode("utf-8", "replace"))
    if whole is not None:
        return json.dumps(_replaced(rng, whole)).encode()
    if not lines:
        return data
    number = rng.integers(len(lines))
    if (value := _parsed(lines[number])) is not None:
        lines[number] = json.dumps(_replaced(rng, value)) + "\n"
    return "".join(lines).encode()


def _parsed(text):
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _replaced(rng, value):
    """A JSON value with another in the place of one of its parts."""
    if rng.random() < 0.2 or not isinstance(value, dict | list) or not value:
        return pick(rng, *VALUES)
    if isinstance(value, list):
        place = int(rng.integers(len(value)))
        return [*value[:place], _replaced(rng, value[place]), *value[place + 1 :]]
    name = pick(rng, *value)
    if rng.random() < 0.2:
        return {other: part for other, part in value.items() if other != name}
    return value | {name: _replaced(rng, value[name])}
