# Two commands: `make demo` runs the main job, `make test` checks everything. `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# setuptools warns at length of the one thing that the layout does on purpose (folders at the root).
PIP    := PYTHONWARNINGS=ignore $(BIN)/pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-torch lint types bytecode tests exhaustive redis graphviz chromium triton wheel bench programs gpu-check clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "warmgraph needs Python 3.10 or newer; set PYTHON=python3.x" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }

# torch first and alone: a range would fetch the newest build, with gigabytes of CUDA.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt torch setuptools wheel
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.torch
	$(PIP) install -q -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.demo ## compile GPT-2 once, load it in fresh processes, compare (2 minutes)
	@$(BIN)/warmgraph demo

test: lint types tests ## ruff, mypy on the installed package, and the tests that take minutes, not hours

test-all: test exhaustive ## all that `.ci/run` tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy sees the package as users do: built and installed, not as folders at the root. Without what an earlier run
# left: files that are gone, and answers that mypy kept and did not ask again.
types: $(VENV)/.dev
	@rm -rf .build/site build/lib && mkdir -p .build/site
	$(PIP) install -q --no-deps --no-build-isolation --target .build/site .
	cd .build && MYPYPATH=site ../$(BIN)/mypy --cache-dir=/dev/null --config-file ../pyproject.toml -p warmgraph

# As pip leaves what it installs. A checkout has no bytecode where PYTHONDONTWRITEBYTECODE is set, and each of a
# thousand processes would compile the 230 files that it loads anew.
bytecode: $(VENV)/.dev
	@$(BIN)/python -m benchmarks.bytecode

# Compiles use more than one core each: two at once, however many there are.
tests: bytecode redis graphviz chromium triton
	$(BIN)/pytest -n 2 --dist worksteal -m "not exhaustive"

exhaustive: bytecode redis graphviz chromium ## the tests that `make test` leaves out: every pair, probe, construct and model
	$(BIN)/pytest -n 2 --dist worksteal -m exhaustive $(if $(MINUTES),--minutes=$(MINUTES))

# Where it makes and keeps an environment for each version; elsewhere: ENVS=/folder.
ENVS ?= .venvs

test-torch: ## the tests that depend on torch, with another: VERSION=2.15.0 (6 GB, an hour; docs/versions.md)
	@test -n "$(VERSION)" || { echo "which? make test-torch VERSION=2.15.0" >&2; exit 1; }
	$(PYTHON) .ci/test_torch.py $(VERSION) --envs $(ENVS) $(ARGS)

redis: ## a real redis-server, from the distribution's packages if it may be installed
	@command -v redis-server >/dev/null || sh .ci/install-redis

graphviz: ## the program `dot`; without it the tests that ask it are skipped, and the rest runs
	@command -v dot >/dev/null || sh .ci/install-graphviz || \
	  echo "some tests of pictures will be skipped: no Graphviz could be installed" >&2

chromium: ## a real Chromium for the page's tests; without one they are skipped, and the rest runs
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	  sh .ci/install-chromium || echo "the page's tests will be skipped: no Chromium could be installed" >&2

# The one for torch 2.13. Not into the environment: torch asks whether there is one, and its build for CPUs comes without. Some 200 MB.
triton: $(VENV)/.dev ## Triton for the tests with a pretended GPU, beside the environment; without it they are skipped
	@test -d .build/triton/triton || \
	  $(PIP) install -q --no-deps --target .build/triton triton==3.7.1 || \
	  echo "tests for GPUs will be skipped: no Triton could be installed" >&2

wheel: $(VENV)/.dev ## build the wheel into dist/
	rm -rf dist build && $(BIN)/python -m build --no-isolation --wheel -o dist . >/dev/null

bench: $(VENV)/.dev redis ## measure against torch's own caches; writes benchmarks/results/ (an hour)
	$(BIN)/python -m benchmarks.warm_start
	$(BIN)/python -m benchmarks.fleet
	$(BIN)/python -m benchmarks.faults
	$(BIN)/python -m benchmarks.scale
	$(BIN)/python -m benchmarks.hash_speed
	$(BIN)/python -m benchmarks.audit_speed
	$(BIN)/python -m benchmarks.symbols
	$(BIN)/python -m benchmarks.operators

# A few minutes each; vLLM's only where it is installed (docs/programs.md).
programs: $(VENV)/.dev ## programs as users write them (Trainer, diffusers, ...), cold and warm, with torch's caches beside
	$(PIP) install -q -c constraints.txt -e '.[programs]'
	$(BIN)/python -m benchmarks.programs $(ARGS)

# With $(PYTHON) as it is, not the environment made here: on a GPU machine that is where its torch lies.
gpu-check: ## tests and benchmark on a CUDA machine; PYTHON=... ARGS='--quick' (docs/gpu.md)
	@$(PYTHON) -m benchmarks.gpu_check $(ARGS)

clean: ## remove what was built (not the cache)
	rm -rf .build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
