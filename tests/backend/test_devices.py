"""Naming a device where there is no GPU, and options for one; what needs a GPU is in test_gpu.py."""

import subprocess
import sys
import types

import numpy as np
import pytest

import sparsect
from sparsect import InputError, gpu_options
from sparsect.backend import devices
from sparsect.backend.arrays import on_host
from sparsect.backend.csr import compressed, compressed_on_host, joined_rows
from sparsect.backend.engines import has_kernels


@pytest.fixture
def without_torch(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)


@pytest.fixture(params=[None, "13.0"], ids=["CPU build", "no GPU"])
def without_gpu(monkeypatch, request):
    """A torch that sees no GPU."""
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: False)
    torch.version = types.SimpleNamespace(cuda=request.param)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    return "was built without CUDA" if request.param is None else "finds no GPU"


def test_importing_does_not_need_torch():
    code = (
        "import sys, sparsect, sparsect.images, sparsect.cli; assert not {'torch', 'triton', 'cupy'} & set(sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_device_without_torch(without_torch):
    x = np.ones(3)
    assert devices.place(x, None) is x
    assert devices.place(x, "auto") is x
    np.testing.assert_array_equal(devices.place(x, "cpu"), x)
    with pytest.raises(InputError, match=r"device` must .*'cpu'.*got 'cuda', but torch is not installed"):
        devices.place(x, "cuda")


def test_a_device_without_a_gpu(without_gpu):
    x = np.ones(3)
    assert devices.place(x, "auto") is x
    with pytest.raises(InputError, match=f"device` must .*got 'cuda:1', but torch {without_gpu}"):
        devices.place(x, "cuda:1")


@pytest.mark.parametrize("name", ["tpu", "gpu", "", "cudax", 3, np.ones(2)])
def test_unknown_devices(name):
    with pytest.raises(InputError, match=r"device` must be 'auto', 'cpu', 'cuda'"):
        devices.place(np.ones(3), name)


def test_front_doors_refuse_a_gpu_that_is_not_there(without_torch, rng):
    X = rng.standard_normal((20, 16))
    with pytest.raises(InputError, match="torch is not installed"):
        sparsect.DictionaryLearner(n_atoms=4, rounds=1, device="cuda").fit(X)
    with pytest.raises(InputError, match="torch is not installed"):
        sparsect.SparseCoder(sparsity=2, device="cuda").fit(X).transform(X)
    with pytest.raises(InputError, match="torch is not installed"):
        sparsect.images.reconstruct(rng.random((40, 40)), 5, device="cuda")
    automatic = sparsect.SparseCoder(sparsity=2, device="auto").fit(X).transform(X)
    np.testing.assert_array_equal(automatic.toarray(), sparsect.SparseCoder(sparsity=2).fit(X).transform(X).toarray())
    seen = sparsect.images.reconstruct(rng.random((40, 40)), 5, device="auto", max_iter=3)
    assert isinstance(seen.image, np.ndarray)


def test_options():
    assert devices.product_precision() == "bf16x3"
    with gpu_options(precision="tf32", memory=1e9):
        assert devices.product_precision() == "tf32"
        with gpu_options(precision="float32"):
            assert devices.product_precision() == "float32"
        with gpu_options(memory=2e9):
            assert devices.product_precision() == "tf32"
        assert devices.product_precision() == "tf32"
    assert devices.product_precision() == "bf16x3"
    with pytest.raises(InputError, match=r"precision` must .*got 'double'"), gpu_options(precision="double"):
        pass
    for memory in (0, -1, float("nan")):
        with pytest.raises(InputError, match="memory"), gpu_options(memory=memory):
            pass


def test_arrays_in_main_memory_have_no_use_for_a_gpu(rng):
    x = rng.standard_normal((30, 5))
    assert on_host(x)
    assert not has_kernels(x)
    with gpu_options(memory=1):
        assert devices.rows_at_a_time(x, (5, 10), 7) == 7
    with devices.summing(x):
        assert devices.product_precision() == "bf16x3"
    assert devices.described(x) == "CPU"


def test_running_out_of_memory_is_explained():
    class OutOfMemoryError(RuntimeError):
        pass

    explained = r"y` must .*fewer.*got more rows than the memory of the GPU can hold"
    with pytest.raises(InputError, match=explained), devices.too_many_rows():
        raise OutOfMemoryError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="something else"), devices.too_many_rows():
        raise RuntimeError("something else")


def test_sparse_rows(rng):
    x = np.where(rng.random((6, 4)) < 0.5, rng.standard_normal((6, 4)), 0)
    parts = [compressed(x[:2]), compressed_on_host(x[2:])]
    np.testing.assert_array_equal(joined_rows(parts).toarray(), x)
    assert joined_rows(parts[:1]) is parts[0]


def test_dictionaries_are_placed_once(rng):
    dictionary = sparsect.Dictionary(rng.standard_normal((4, 6)))
    assert dictionary.placed_like(np.ones(2)) is dictionary


def test_command_line(called):
    done = called("recover", "--random", "20x40", "-s", "2", "--device", "tpu")
    assert done.returncode == 2
    assert "'auto', 'cpu', 'cuda'" in done.stderr
    done = called("recover", "--random", "20x40", "-s", "2", "--memory", "-1")
    assert "--memory" in done.stderr
    done = called("reconstruct", "chelsea", "--precision", "half")
    assert "--precision" in done.stderr
    done = called("learn", "nowhere", "--device", "tpu")
    assert "device" in done.stderr


def test_recover_takes_a_device():
    problem = sparsect.random_problem(20, 40, 3, rng=0)
    plain = sparsect.recover(problem.Phi, problem.y, 3)
    for device in ("cpu", "auto"):
        np.testing.assert_allclose(sparsect.recover(problem.Phi, problem.y, 3, device=device).x, plain.x, atol=1e-4)
    with pytest.raises(InputError, match=r"device` must .*got 'tpu'"):
        sparsect.recover(problem.Phi, problem.y, 3, device="tpu")
