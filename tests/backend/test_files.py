"""Arrays in and out of files: every format, and every way a file can be wrong."""

import os
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import sparsect
from sparsect import InputError
from sparsect.backend import files

MATRIX = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", MATRIX)
    np.savez("one.npz", anything=MATRIX)
    np.savez("two.npz", Phi=MATRIX, y=MATRIX[0])
    scipy.io.savemat("a.mat", {"A": MATRIX, "b": MATRIX[0]})
    np.savetxt("a.csv", MATRIX, delimiter=",")
    scipy.sparse.save_npz("sparse.npz", scipy.sparse.csr_array(MATRIX))
    return tmp_path


@pytest.mark.parametrize("name", ["a.npy", "one.npz", "two.npz", "two.npz:Phi", "a.mat:A", "a.csv"])
def test_read(there, name):
    np.testing.assert_array_equal(files.read_array(name, prefer=("Phi",)), MATRIX)


def test_read_sparse(there):
    found = files.read_array("sparse.npz")
    assert scipy.sparse.issparse(found)
    np.testing.assert_array_equal(found.toarray(), MATRIX)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npy", "no such file"),
        ("a.doc", r"must be a file of type \.npy.*got a file of type '\.doc'"),
        ("two.npz", r"two\.npz` must hold one array, got 2 arrays \(Phi, y\)\. Name one of them: two\.npz:Phi"),
        ("two.npz:Phy", "Did you mean 'Phi'"),
        (".", "got a file of type 'unknown'"),
    ],
)
def test_what_cannot_be_read(there, name, message):
    with pytest.raises(InputError, match=message):
        files.read_array(name)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".csv"])
@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY garbage", b"PK\x03\x04", b"a,b\n1,x\n", b"1,2\n3\n", bytes(range(256)) * 9]
)
def test_damaged(tmp_path, suffix, content):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(content)
    with pytest.raises(InputError, match="bad"):
        files.read_array(path)


TABLES = {
    "commas": ("1,2,9\n3,4,7\n", [[1, 2, 9], [3, 4, 7]]),
    "commas and spaces": ("1, 2\n3 , 4\n", [[1, 2], [3, 4]]),
    "semicolons": ("1;2\n3;4", [[1, 2], [3, 4]]),
    "tabs": ("1\t2\n3\t4\n", [[1, 2], [3, 4]]),
    "spaces": ("  1  2\n 30 -4\n", [[1, 2], [30, -4]]),
    "decimal commas": ("1,5;-2,25\n3;4e-1\n", [[1.5, -2.25], [3, 0.4]]),
    "decimal commas between tabs": ("1,5\t2\n", [1.5, 2]),
    "other line ends": ("1,2,9\r\n3,4,7\r", [[1, 2, 9], [3, 4, 7]]),
    "byte order mark": ("\ufeff1,2,9\n3,4,7\n", [[1, 2, 9], [3, 4, 7]]),
    "comments": ("# made by hand\n1,2,9 # first\n# between\n3,4,7\n", [[1, 2, 9], [3, 4, 7]]),
    "empty lines at the ends": ("\n\n1,2,9\n3,4,7\n\n \n", [[1, 2, 9], [3, 4, 7]]),
    "quoted": ('"1","2.5"\n"3","4"\n', [[1, 2.5], [3, 4]]),
    "quoted between spaces": ('"1" "2.5"\n"3" "4"\n', [[1, 2.5], [3, 4]]),
    "pairs with a space": ("1, 5\n2, 7\n", [[1, 5], [2, 7]]),
    "pairs with names": ("a,b\n1,5\n2,7\n", [[1, 5], [2, 7]]),
    "a pair": ("1,5\n", [1, 5]),
    "one line": ("0,1,2\n", [0, 1, 2]),
    "one line of decimals": ("0.5 0.25 1e3\n", [0.5, 0.25, 1000]),
    "one column": ("0\n1\n2\n", [0, 1, 2]),
    "one number": ("7", [7]),
    "identity": ("1,0,0\n0,1,0\n0,0,1\n", np.eye(3)),
    "identity of two": ("1,0\n0,1\n", np.eye(2)),
    "zeros and ones": ("0,1,1\n1,0,1\n", [[0, 1, 1], [1, 0, 1]]),
    "whole numbers": ("1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]]),
    "a line that counts, with points": ("0.0,1.0,2.0\n0.5,0.5,0.5\n", [[0, 1, 2], [0.5, 0.5, 0.5]]),
    "a column that counts, with points": ("0.0,5\n1.0,6\n2.0,7\n", [[0, 5], [1, 6], [2, 7]]),
    "names": ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
    "names in quotes": ('"a, b","c"\n1,2\n3,4\n', [[1, 2], [3, 4]]),
    "names and an empty line": ("a,b\n\n1,2\n3,4\n", [[1, 2], [3, 4]]),
    "names with spaces": ("x (mm) y (mm)\n1 2\n3 4\n", [[1, 2], [3, 4]]),
    "name of one column": ("signal\n0.5\n0\n", [0.5, 0]),
    "names and decimal commas": ("a;b\n1,5;2\n", [1.5, 2]),
    "whole numbers as quoted names": ('"2019","2020"\n1,2\n3,4\n', [[1, 2], [3, 4]]),
    # As pandas writes them: columns alone, columns and index, a series, separated by spaces; then as R does.
    "pandas columns": ("0,1,2\n0.5,1.0,2e-05\n1.5,0.0,0.0\n", [[0.5, 1, 2e-5], [1.5, 0, 0]]),
    "pandas index": (",0,1\n0,5,3\n1,0,2\n", [[5, 3], [0, 2]]),
    "pandas index and names": (",a,b\n0,5,3\n1,0,2\n2,1,1\n", [[5, 3], [0, 2], [1, 1]]),
    "pandas index, read and written again": ("Unnamed: 0,a\n0,5\n1,3\n", [5, 3]),
    "pandas index of one row": (",0,1\n0,0.5,0.25\n", [0.5, 0.25]),
    "pandas series": (",0\n0,0.5\n1,1.5\n", [0.5, 1.5]),
    "pandas between spaces": (" 0 1\n0 0.5 1.5\n1 2.5 3.5\n", [[0.5, 1.5], [2.5, 3.5]]),
    "R": ('"","V1","V2"\n"1",5,3\n"2",0,2\n', [[5, 3], [0, 2]]),
    "R between spaces": ('"V1" "V2"\n"1" 5 3\n"2" 0 2\n', [[5, 3], [0, 2]]),
}

REFUSED_TABLES = {
    "empty": ("\n# nothing\n", "got no numbers"),
    "names alone": ("a,b\n", r"line 1, column 1` must .*got 'a'"),
    "ragged": ("1,2\n3,4\n5\n", r"line 3` must .*got 1 cells, and 2 in the lines before"),
    "empty cell": ("1,2\n3,\n", r"line 2, column 2` must .*got an empty cell"),
    "empty line": ("1\n\n3\n", r"line 2` must .*got an empty line between numbers"),
    "word": ("1,2\n# note\n3,x\n", r"line 3, column 2` must .*got 'x'"),
    "two lines of names": ("a,b\nm,s\n1,2\n", r"line 2, column 1` must .*got 'm'"),
    "word among numbers": ("1.5,x\n3,4\n", r"line 1, column 2` must .*got 'x'"),
    "not a number": ("1,2\n3,nan\n", r"line 2, column 2` must .*a finite number.*got 'nan'"),
    "not a number at first": ("nan,NaN\n3,1\n", r"line 1, column 1` must .*got 'nan'"),
    "infinity": ("1,-inf\n", r"line 1, column 2` must .*got '-inf'"),
    "beyond double precision": ("1,1e999\n", r"line 1` must .*got a number beyond the range"),
    "complex": ("1+2j,3j\n1,2\n", r"line 1, column 1` must .*got '1\+2j'"),
    "digits in groups": ("1_000,2\n", r"line 1, column 1` must .*got '1_000'"),
    "several delimiters": ("1,2\n3;4\n", r"line 2` must .*got 2 cells, and 1"),
    "quote without end": ('1,"2\n', "damaged"),
    "names too few": ("a;b\n1;2;3;4\n", r"line 1` must .*got 2 names for 4 columns"),
    "index without an order": (",a\n5,0.5\n2,1.5\n", r"line 1` must .*got no name for the first column"),
    "a line that counts": ("0,1,2\n5,3,1\n", r"line 1` must .* after a '#'.*\(0\.0\).*got 0, 1, 2, which may be "),
    "a line that counts, two columns": (
        "0,1\n0.1,0.9\n0.2,0.8\n",
        r"line 1` must .*got 0, 1, which may be column names",
    ),
    "a line that counts from one": ("1 2 3 4\n0.5 0.5 0.5 0.5\n", r"line 1` must .*got 1, 2, 3, \.\.\., which may be"),
    "a zero above a column": ("0\n0.5\n1.5\n", r"line 1` must .*got 0, which may be column names or numbers"),
    "a column that counts": ("0;5\n1;3\n2;4\n", r"column 1` must .*got numbers that count the lines"),
    "a column that counts from one": ("1;0.5\n2;0.25\n3;1.5\n", r"column 1` must .*got numbers that count the lines"),
    "a column that counts below names": ("id,a\n0,0.5\n1,0.25\n", r"column 1` must .*got numbers that count the lines"),
    "points and commas": ("1,5;2\n2.5;1\n", r"line 2` must .*got decimal points and decimal commas"),
    "thousands": ("1,234;2\n", r"line 1` must .*got numbers such as 1,234"),
    "thousands and millions": ("1,5;1,234,567\n", r"line 1, column 2` must .*got '1,234,567'"),
    "one column of decimal commas": ("1,53\n-0,27\n3,05\n", r"line 1` must .*got pairs of whole numbers that may be"),
    "one column with one decimal": ("1,5\n2,7\n4,1\n", r"line 1` must .*got pairs of whole numbers that may be"),
    "one column of decimal commas with a name": (
        "signal\n1,5\n2,7\n",
        r"line 2` must .*got pairs of whole numbers that may be",
    ),
    "names too few for one line": ("a;b\n1;2;3\n", r"line 1` must .*got no name for the first column"),
    "decimal commas between spaces": ("1,5 2,5\n", r"line 1, column 2` must .*got '5 2'"),
    "quoted decimal commas": ('"1,5","2,5"\n', r"line 1, column 1` must .*got '1,5'"),
    "another encoding": ("\xe4;b\n1;2\n".encode("latin-1"), "got bytes that are not UTF-8"),
}


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_text(tmp_path, suffix, case):
    content, expected = TABLES[case]
    path = tmp_path / f"a{suffix}"
    path.write_text(content, encoding="utf-8", newline="")
    found = files.read_array(path)
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float64), strict=True)


@pytest.mark.parametrize("case", REFUSED_TABLES)
def test_text_that_is_refused(tmp_path, case):
    content, message = REFUSED_TABLES[case]
    path = tmp_path / "a.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=rf"a\.tsv.*{message}"):
        files.read_array(path)


def test_text_in_utf_16(tmp_path):
    (tmp_path / "a.txt").write_text("a\tb\r\n1\t2\r\n3\t4\r\n", encoding="utf-16", newline="")
    np.testing.assert_array_equal(files.read_array(tmp_path / "a.txt"), [[1, 2], [3, 4]])


def test_truncated(there):
    for name in ("a.npy", "two.npz", "a.mat"):
        content = (there / name).read_bytes()
        (there / name).write_bytes(content[: len(content) * 2 // 3])
        with pytest.raises(InputError, match="damaged"):
            files.read_array(name)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "a.npz", x=np.array([{"a": 1}], dtype=object))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(InputError, match="damaged, or not of the type that its name suggests"):
            files.read_array(tmp_path / name)


def test_huge_declared_size(tmp_path):
    """A short file whose header declares a terabyte is refused before anything is allocated."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    header = header.ljust(118 - 1) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InputError, match=r"a\.npy"):
        files.read_array(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.infolist()[0].file_size = 2**42
    with pytest.raises(InputError, match=r"a\.npz` must fit into half of memory.*got arrays of 4096\.0 GiB"):
        files.read_array(tmp_path / "a.npz")


@pytest.mark.parametrize("read", [files.read_array, files.read_npz, files.read_text, sparsect.load_dictionary])
def test_only_regular_files_are_read(tmp_path, read):
    """A device has no end, and nobody may ever write to a pipe."""
    path = tmp_path / "x.npz"
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"x\.npz` must .*a regular file.*got a device, pipe or socket"):
        read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(InputError, match="got a device, pipe or socket"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="got a folder"):
        read(path)
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        read(path)
    path.unlink()
    with pytest.raises(InputError, match="no such file"):
        read(path)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"{", b"[" * 100_000])
def test_damaged_json(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(InputError, match=r"x\.json: damaged"):
        files.read_json(tmp_path / "x.json")


def test_result_comes_back(tmp_path):
    problem = sparsect.random_problem(20, 40, 3, batch=2, rng=0)
    for y in (problem.y, problem.y[0]):
        result = sparsect.recover(problem.Phi, y, 3, "difference-map", record=("gap", "x"))
        result.save(tmp_path / "x.npz")
        loaded = sparsect.load_result(tmp_path / "x.npz")
        assert loaded.method == "DifferenceMap(beta=0.14, data_set=None)"
        for name in ("x", "support", "gap", "residual_norm", "n_iter", "converged", "seconds", "sparsity"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(result, name))
        np.testing.assert_array_equal(loaded.history["x"], result.history["x"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.full((2, 40), np.nan)}, "x has entries that are NaN"),
        ({"x": np.full((2, 40), np.inf)}, "x is not finite"),
        ({"x": np.zeros((2, 40), int)}, "x has dtype int64"),
        ({"x": np.zeros((3, 40))}, r"has dtype .* and shape \(2"),
        ({"x": np.float64(1.0)}, "x has dtype float64"),
        ({"support": np.ones((2, 40), bool)}, "support is not where"),
        ({"gap": np.array(["a", "b"])}, "gap has dtype <U1"),
        ({"n_iter": np.zeros(3, int)}, "n_iter has dtype int64"),
        ({"seconds": np.array([1.0])}, "seconds has dtype"),
        ({"method": np.float64(1.0)}, "method has dtype float64"),
        ({"history/gap": np.zeros((99, 2))}, "history do not fit"),
        ({"history/gap": np.float64(1.0)}, "history do not fit"),
    ],
)
def test_a_damaged_result_is_refused(tmp_path, changes, message):
    problem = sparsect.random_problem(20, 40, 3, batch=2, rng=0)
    sparsect.recover(problem.Phi, problem.y, 3).save(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", **dict(np.load(tmp_path / "x.npz")) | changes)
    with pytest.raises(InputError, match=rf"x\.npz: damaged \(.*{message}"):
        sparsect.load_result(tmp_path / "x.npz")


def test_not_a_result(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.zeros(3))
    with pytest.raises(InputError, match="not a result of sparsect"):
        sparsect.load_result(tmp_path / "x.npz")


def test_a_sparse_matrix_said_to_be_larger_than_memory(tmp_path):
    matrix = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(3, 4))
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    np.savez(tmp_path / "x.npz", **dict(np.load(tmp_path / "x.npz")) | {"shape": np.array([2**60, 4])})
    with pytest.raises(InputError, match=r"x\.npz` must fit into half of memory.*got arrays of .* GiB"):
        files.read_array(tmp_path / "x.npz")


class TestSparseMatricesWhoseIndicesLeadNowhere:
    """SciPy looks at the indices only where the last says that there are nonzeros."""

    MATRIX = scipy.sparse.csc_matrix(([1.0], ([0], [0])), shape=(3, 4))
    MADE_UP = np.array([0, 10**6, 0, 0, 0], np.int32)

    def test_npz(self, tmp_path):
        arrays = files.csr_arrays(self.MATRIX) | {"format": np.array(b"csc"), "indptr": self.MADE_UP}
        np.savez(tmp_path / "x.npz", **arrays)
        with pytest.raises(InputError, match=r"x\.npz: damaged.*indptr must be"):
            files.read_array(tmp_path / "x.npz")

    def test_mat(self, tmp_path):
        path = tmp_path / "x.mat"
        scipy.io.savemat(path, {"Phi": self.MATRIX})
        whole, there = path.read_bytes(), self.MATRIX.indptr.astype(np.int32).tobytes()
        assert there in whole
        path.write_bytes(whole.replace(there, self.MADE_UP.tobytes()))
        with pytest.raises(InputError, match=r"x\.mat: damaged.*indptr must be"):
            files.read_array(path)


@pytest.mark.parametrize("name", [None, 3, b"x.npz", ["x.npz"], np.ones(2), "a\0b.npz"])
def test_what_is_no_name_of_a_file(name):
    readers = [files.read_array, files.read_npz, sparsect.load_result, sparsect.images.load_codes]
    for read in [*readers, sparsect.images.read_image, sparsect.images.ImageFolder]:
        with pytest.raises(InputError, match="path` must"):
            read(name)
    with pytest.raises(InputError, match="path` must"):
        sparsect.images.write_image(name, MATRIX)


def test_a_name_that_is_too_long():
    with pytest.raises(InputError, match=r"xxx.*no such folder"):
        sparsect.images.ImageFolder("x" * 300)
    with pytest.raises(InputError, match=r"cannot be read \(File name too long\)"):
        files.read_array("x" * 300 + ".npy")


class TestTextThatIsEasilyMisread:
    """What a spreadsheet or another program writes, and what must become of it."""

    @pytest.mark.parametrize(
        "text",
        [
            "1.5,2.5\n#N/A,0.3\n",
            "1.5 2.5 #N/A\n3.5 4.5 5.5\n",
            "2.5,1.#INF\n3.5,4.5\n",
            "\u22121.5,2.5\n3.5,4.5\n",
            "$1.5,$2.5\n3.5,4.5\n",
            "(1.5),(2.5)\n3.5,4.5\n",
            "TRUE,FALSE\n1.5,0.5\n",
            ",Unnamed: 0,a,b\n0,0,1.5,2.5\n1,1,3.5,4.5\n2,2,5.5,6.5\n",
        ],
    )
    def test_is_refused(self, tmp_path, text):
        (tmp_path / "x.csv").write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"x\.csv"):
            files.read_array(tmp_path / "x.csv")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('"1.5","2.5"\n3.5,4.5\n', [[1.5, 2.5], [3.5, 4.5]]),
            ("1.5,2.5 # a remark\n# another\n3.5,4.5\n", [[1.5, 2.5], [3.5, 4.5]]),
            ("t,v\n0,1.5\n1,2.5\n2,3.5\n", [[0, 1.5], [1, 2.5], [2, 3.5]]),
            (",a,b\n0,1.5,2.5\n1,3.5,4.5\n", [[1.5, 2.5], [3.5, 4.5]]),
        ],
    )
    def test_is_read(self, tmp_path, text, expected):
        (tmp_path / "x.csv").write_text(text, encoding="utf-8")
        np.testing.assert_array_equal(files.read_array(tmp_path / "x.csv"), expected)
