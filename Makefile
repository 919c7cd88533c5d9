# The commands of a working day. Each one prepares the checkout first (tools/setup.sh), so any of
# them may be the first after a clone.

SHELL := /bin/bash
# Tests start some thousand Python processes: without kept bytecode each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-long check format bench measurements screenshots docs clean clean-all python java rivals

BIN := .venv/bin
# Two more than the cores of a small machine: tests with real processes often wait.
WORKERS ?= 4
# Anything for the command behind the target: make test ARGS="-k queue", make bench ARGS=--quick
ARGS ?=

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: python java ## create .venv from uv.lock, and install Java 17+ if there is none

demo: setup ## the tour
	$(BIN)/penstock demo $(ARGS)

# Workers take whole files, and what shares a cluster or a server together (see tests/conftest.py).
test: setup rivals ## all tests
	PENSTOCK_TESTS=full $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-long: setup rivals ## all tests, every seed of the sweeps, 200 examples
	PENSTOCK_TESTS=long $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-fast: python ## the tests that need neither a JVM nor other processes
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not spark and not e2e and not slow" $(ARGS)

check: python ## lint, format, types, import rule
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: python ## let ruff rewrite what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup rivals ## every benchmark, as ratios against its rival
	$(BIN)/penstock bench all $(ARGS)

# A part that fails, or a goal that is missed, is a row of the page and does not stop the others.
# Some of them: make measurements REPRODUCE=pack-fig7,pack-fig9 BENCH=node; none of one kind: BENCH=none
measurements: setup rivals ## every experiment and benchmark again, stored in docs/measured, and the pages made of them
	$(if $(filter none,$(REPRODUCE)),,-$(BIN)/penstock reproduce all --store docs/measured $(if $(REPRODUCE),--only $(REPRODUCE)) $(ARGS))
	$(if $(filter none,$(BENCH)),,-$(BIN)/penstock bench all --store docs/measured $(if $(BENCH),--only $(BENCH)) $(ARGS))
	$(BIN)/python tools/measurements.py

screenshots: setup ## the pictures of the dashboard in docs, taken again
	PENSTOCK_SCREENSHOTS=docs/guides/dashboard $(BIN)/python -m pytest -q -n0 tests/e2e/test_screenshots.py $(ARGS)

# -E reads every page again: Sphinx does not repeat the warnings of pages it has cached.
docs: python ## docs/_build/html, warnings are errors
	$(BIN)/sphinx-build -E -W --keep-going -n docs docs/_build/html

clean: ## remove what building and testing left behind (.venv stays)
	rm -rf docs/_build dist out spark-warehouse metastore_db derby.log .setup.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src lab tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all: clean ## clean, and remove .venv and .uv
	rm -rf .venv .uv

python java rivals:
	@tools/setup.sh $@
