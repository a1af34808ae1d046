# Every target makes what it needs. PYTHON=python3.12 make test picks another interpreter.
PYTHON ?= python3
UV ?= uv
TESTS ?= tests
PYTEST_ARGS ?=
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# requirements.lock has sections: each size of environment takes the file from its top to a line.
PINNED := $(INSTALL) --require-hashes --no-deps --no-build-isolation --use-pep517
PROJECT := $(INSTALL) --no-deps --no-build-isolation --editable .
# pyright comes whole in its wheel and need not look for a newer one.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help venv dev demo test check versions format bench bench-here chaos lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

venv: $(VENV)/run-time.stamp  ## .venv with the run-time packages and the project, editable

dev: $(VENV)/dev.stamp  ## the same with what tests and checks need

demo: $(VENV)/run-time.stamp  ## see a crash in the middle of a charge, and no second charge
	$(BIN)/python demo/never_twice.py

test: $(VENV)/dev.stamp  ## run the tests; TESTS=tests/core PYTEST_ARGS=-x narrows
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(TESTS)

check: $(VENV)/dev.stamp  ## lint, formatting, types (mypy and pyright), import directions
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

versions: $(VENV)/dev.stamp  ## golden digests under several versions of pydantic (needs an index)
	$(BIN)/python scripts/pydantic_versions.py

format: $(VENV)/dev.stamp  ## put the code into its one form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench:  ## measure beside DBOS in .venv-bench; BENCH_ARGS=--quick is a short look
	@$(MAKE) --no-print-directory VENV=$(VENV)-bench bench-here

bench-here: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

chaos: $(VENV)/dev.stamp  ## the long runs: kills, cut connections, full disks
	$(BIN)/python -m pytest -m chaos --timeout 0 $(PYTEST_ARGS) $(TESTS)

lock:  ## resolve the packages anew and write requirements.lock (needs uv)
	UV=$(UV) $(PYTHON) scripts/lock.py $(LOCK_ARGS)

clean:  ## remove the environment and every cache
	rm -rf $(VENV) $(VENV)-bench .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Mayura needs Python 3.11 or newer, and '$(PYTHON)' is not: install it" \
	       "(apt install python3) or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments (no ensurepip):" \
	       "apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/run-time.stamp: $(VENV)/created.stamp requirements.lock pyproject.toml
	@sed '/^# --- development/,$$d' requirements.lock > $(VENV)/run-time.lock
	$(PINNED) --requirement $(VENV)/run-time.lock
	$(PROJECT)
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run-time.stamp
	@sed '/^# --- benchmark/,$$d' requirements.lock > $(VENV)/dev.lock
	$(PINNED) --requirement $(VENV)/dev.lock
	@touch $@

$(VENV)/bench.stamp: $(VENV)/dev.stamp
	$(PINNED) --requirement requirements.lock
	@touch $@
