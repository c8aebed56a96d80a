# The project's commands. `make help` lists them.
#
#   PYTHON     the interpreter that a new environment is made with      (make demo PYTHON=python3.12)
#   VENV       where the environment lives                              (make test VENV=/tmp/env)
#   PIP_FLAGS  passed on to pip, e.g. an index that has PyTorch without CUDA:
#              make demo PIP_FLAGS="--no-cache-dir"
#   EXTRAS     more of pyproject.toml's extras                          (make test EXTRAS="jax paddle")
#   EXISTING   1: install nothing, and use the packages of PYTHON's environment, which may have no network
#              (make test-cuda EXISTING=1 PYTHON=/opt/torch/bin/python)
#   SANITIZE   a tool of compute-sanitizer, under which test-cuda runs its programs (make test-cuda SANITIZE=memcheck)
#   LIMIT      how many seconds test-cuda may take once all is built                (make test-cuda LIMIT=1200)
#   SECONDS    how long fuzz starts new programs and soak runs          (make fuzz SECONDS=3600)
#   SEED       the first seed of fuzz                                   (make fuzz SEED=1000)
#   ARGS       passed on to the demo, the tests or the benchmarks       (make demo ARGS="--iterations 100")

PYTHON ?= python3
VENV ?= .venv
PIP_FLAGS ?=
EXTRAS ?=
EXISTING ?=
SANITIZE ?=
LIMIT ?= 480
SECONDS ?= $(if $(filter soak,$(MAKECMDGOALS)),1800,600)
SEED ?= 1
ARGS ?=

ifneq ($(EXISTING),)
VENV := build/borrowed
endif

export PIP_FLAGS EXISTING
# The tests start the package in many processes, each of which would compile its source again without the files.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
ENVIRONMENT := $(PYTHON) .ci/environment.py $(VENV)
SOURCES := warp_like examples tests docs .ci build_lib.py build_contract.py build_stubs.py
NATIVE := $(wildcard native/*.cpp native/*.h)

.PHONY: help demo test test-cuda test-ptx test-public test-versions test-long soak fuzz sanitize windows lint format docs bench build dist clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: ## fit Gaussians to a photograph: environment, build, run
	@$(ENVIRONMENT) demo
	@$(BIN)/python build_lib.py
	$(BIN)/python examples/gaussian_splatting_2d.py $(ARGS)

test: ## environment, build, the whole test suite (which also builds the documentation)
	@$(ENVIRONMENT) demo docs test $(EXTRAS)
	@$(BIN)/python build_lib.py
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-cuda: ## the tests and benchmarks that need an NVIDIA GPU; skips, saying why, where there is none
	@$(ENVIRONMENT) test cuda $(EXTRAS)
	@$(BIN)/python build_lib.py
	@if $(BIN)/python .ci/has_gpu.py; then \
		$(BIN)/python .ci/on_gpu.py --seconds $(LIMIT) $(if $(SANITIZE),--sanitize $(SANITIZE)) $(ARGS); fi

test-ptx: ## the test suite, with every kernel compiled for sm_80 and sm_90, too, and assembled; needs no GPU
	@$(ENVIRONMENT) demo docs test $(EXTRAS)
	@$(BIN)/python build_lib.py
	$(BIN)/python -m pytest -n 2 --for-cuda $(ARGS)

test-long: ## the long tail of the tests, which the suite leaves out: more seeds, sizes and types
	@$(ENVIRONMENT) demo docs test $(EXTRAS)
	@$(BIN)/python build_lib.py
	$(BIN)/python -m pytest -n 2 --long $(ARGS)

soak: ## launches, tapes, graphs and compilations from several threads for SECONDS; fails if memory grows
	@$(ENVIRONMENT) test $(EXTRAS)
	@$(BIN)/python build_lib.py
	$(BIN)/python -m tests.soaking.run --seconds $(SECONDS) $(ARGS)

fuzz: ## random programs against plain Python, for SECONDS from SEED on; findings go to build/fuzz
	@$(ENVIRONMENT) test
	@$(BIN)/python build_lib.py
	$(BIN)/python -m tests.fuzz.run --seconds $(SECONDS) --seed $(SEED) $(ARGS)

sanitize: ## tests of native code under the address, undefined-behaviour and thread sanitizers; in build/sanitize
	@$(ENVIRONMENT) demo docs test $(EXTRAS)
	$(BIN)/python .ci/sanitize.py $(ARGS)

test-public: ## every kernel of pinned public packages, and programs compared with Warp; installs into build/
	@$(ENVIRONMENT) test
	@$(BIN)/python build_lib.py
	$(BIN)/python -m tests.public.run $(ARGS)

test-versions: ## interoperability with the oldest and newest supported versions; installs into build/versions
	$(PYTHON) .ci/versions.py $(ARGS)

windows: ## the native extension for Windows, cross-compiled into build/windows; runs a kernel under Wine if there is one
	@$(ENVIRONMENT) test
	$(BIN)/python .ci/windows.py $(ARGS)

lint: ## formatting, lint rules, types
	@$(ENVIRONMENT) test
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)

format: ## format all sources
	@$(ENVIRONMENT) test
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/clang-format -i $(NATIVE)

docs: build ## the documentation, into build/docs
	@$(ENVIRONMENT) docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

bench: ## launches, throughput, gradients, scale and start-up, beside other libraries
	@$(ENVIRONMENT) demo bench
	@$(BIN)/python build_lib.py
	@for name in launch throughput backward scale builtins utils optim sparse geometry tiles start compile; do \
		$(BIN)/python examples/benchmarks/benchmark_$$name.py --json build/benchmarks/$$name.json $(ARGS) || exit 1; \
	done
	$(BIN)/python examples/benchmarks/benchmark_roofline.py --throughput build/benchmarks/throughput.json \
		--json build/benchmarks/roofline.json --picture build/benchmarks/roofline.png

build: ## the native extension alone
	@$(ENVIRONMENT)
	@$(BIN)/python build_lib.py

dist: ## the source distribution, and a wheel built from it and tried without a compiler, into dist
	@$(ENVIRONMENT)
	rm -rf dist build/wheel
	$(BIN)/python -c "from scikit_build_core.build import build_sdist; build_sdist('dist')"
	$(BIN)/python -m pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir build/wheel dist/*.tar.gz
	$(BIN)/python .ci/wheel.py build/wheel dist

clean: ## remove what was built; the environment stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f warp_like/*.so warp_like/*.pyd $(addprefix warp_like/, __init__.pyi types.pyi _builtins.pyi)
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
