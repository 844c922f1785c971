# Everything runs in .venv, which is made on first use; all that is needed beforehand is Python 3.11 or later and make.
PYTHON ?= python3
TORCH ?= torch==2.13.0
BIN := .venv/bin
GPU_PYTHON ?= python3
FUZZ_SEED ?= $(shell date +%s)

.PHONY: help demo docs test test-app test-fast test-torch test-machines test-gpu test-oldest fuzz lint dist bench clean
help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

demo: .venv/installed  ## reconstruct a sample photograph with every method: tables, pictures, page
	$(BIN)/sparsect reconstruct --out out/demo

docs: .venv/installed-docs  ## build the documentation in out/docs, run its examples, check its links
	rm -rf out/docs docs/api/generated
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs . out/docs
	$(BIN)/python docs/check_links.py out/docs
	@echo "The documentation is in out/docs/index.html."

test: .venv/installed-dev  ## run the tests on NumPy and array-api-strict
	$(BIN)/pytest -q

test-app: .venv/installed-dev  ## run the tests of the page in a browser (apt-get install -y chromium chromium-driver)
	$(BIN)/pytest -q tests/app

test-fast: .venv/installed-dev  ## the tests that take less than a minute together, while editing
	$(BIN)/pytest -q -m "not slow" tests

test-torch: .venv/installed-torch  ## run the array-library tests on torch (CPU)
	$(BIN)/pytest -q tests/backend/test_libraries.py --library torch

test-machines: .venv/installed-dev  ## run the numerical tests as on other CPUs, on one thread, and with NaN in new memory
	$(BIN)/python tests/machines.py

test-gpu:  ## run the tests for a GPU, with the Python that has torch for it (GPU_PYTHON=...)
	PYTHONPATH=$(CURDIR)/src:$$PYTHONPATH $(GPU_PYTHON) -m pytest -q tests/test_gpu.py tests/kernels/test_kernels.py --gpu

test-oldest:  ## run the tests with the oldest versions of the dependencies that pyproject.toml allows
	$(PYTHON) tests/oldest.py

fuzz: .venv/installed-dev  ## ten thousand calls and files drawn at random (FUZZ_SEED=... for the same ones again)
	$(BIN)/pytest -q tests/fuzz/test_fuzz.py --fuzz-cases 10000 --fuzz-seed $(FUZZ_SEED)

lint: .venv/installed-dev  ## style, types, imports that go down, docstrings
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/mypy tests/typed_calls.py && $(BIN)/lint-imports && $(BIN)/python tests/docstrings.py

dist: .venv/installed-dev  ## build wheel and sdist in dist/, and try the wheel in an empty environment
	$(BIN)/python tests/distribution.py

bench: .venv/installed-dev  ## the numbers in benchmarks/results (images.py and real_matrices.py need data: call them by hand)
	$(BIN)/python benchmarks/recovery.py
	$(BIN)/python benchmarks/solvers.py

clean:  ## remove .venv and what was made
	rm -rf .venv out dist docs/gallery docs/api/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; call make PYTHON=...") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/installed

.venv/installed-docs: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

.venv/installed-torch: .venv/installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(TORCH)'
	touch $@
