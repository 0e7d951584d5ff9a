# One word each; every target sets up .venv first if what it is made from has changed.
# Needs Python 3.10 or newer, make, and a C compiler for the fast CPU kernels.

PYTHON ?= python3
BIN := .venv/bin
MANIFESTS := $(wildcard core/pyproject.toml tcplug_*/pyproject.toml plugins/*/pyproject.toml)
BUILT := $(wildcard tcplug_*/setup.py plugins/*/setup.py plugins/*/src/*/*/*.c plugins/*/src/*/*/*.h)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

export OMP_NUM_THREADS ?= 2

.PHONY: env demo test coverage lint bench bench-serve check-devices plugins-index

env: .venv/made

# Without build isolation the build tools are fetched once instead of once per package.
.venv/made: constraints.txt dev-requirements.txt $(MANIFESTS) $(BUILT)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) setuptools wheel
	$(PIP) --no-build-isolation --requirement dev-requirements.txt $(addprefix --editable ,$(dir $(MANIFESTS)))
	touch $@

demo: env
	$(BIN)/tc run --arch qwen2 --quant int4 "Say hello."

# Two at a time, file by file: half of the tests wait for processes more than they compute.
test: env
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# What the tests of two packages run of them, by themselves.
coverage: env
	$(BIN)/coverage run -m pytest core/tests/registry core/tests/api
	$(BIN)/coverage report --include='*/truecluster/_registry/*' --fail-under=95
	$(BIN)/coverage report --include='*/truecluster/api/*' --fail-under=95

lint: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

plugins-index: env
	$(BIN)/python docs/write_plugins_index.py

bench: env
	$(BIN)/python bench/run.py

# LOAD is more options of the loops, such as "--nodes 1"; see bench/README.md for llama.cpp's server beside ours.
bench-serve: env
	$(BIN)/python bench/serve.py --requests 8 $(LOAD)
	$(BIN)/python bench/run.py --runs 3 --json bench/results/serving.json \
	    serve-int4 serve-int8 serve-short serve-gaps serve-prefix serve-constrained

# COORDINATOR is where to listen for the nodes that are checked; CHECKS are more options, such as "--nodes 3".
check-devices: env
	$(if $(COORDINATOR),,$(error say where to listen for nodes: make check-devices COORDINATOR=host:port))
	$(BIN)/python device_checks/run.py --coordinator $(COORDINATOR) $(CHECKS)
