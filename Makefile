# `make demo`   audits and trains on the samples that ship with the package
# `make check`  lints, and runs the quick tests of your change: at most two minutes
# `make test`   lints, and runs all tests
# Each first installs what it needs into VENV: the demo only the package, the others also the tools for development.
# None needs root.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
LINT := $(BIN)/ruff format --check --quiet && $(BIN)/ruff check && $(BIN)/mypy

.PHONY: setup demo check test lint docs dist wheel attack reproduce clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) '.[dev]'
	@touch $(VENV)/.installed-demo $@

$(VENV)/.installed-demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) .
	@touch $@

demo: $(VENV)/.installed-demo
	@rm -rf demo
	@echo "1. Photographs of clothes: which labels are wrong?"
	$(BIN)/hitnet audit clothing-sample --out demo/clothes
	@echo "2. The paper's digits: train a network, and draw what it has learned"
	$(BIN)/hitnet train mnist-sample --out demo/run
	$(BIN)/hitnet prototypes demo/run --out demo/prototypes.png
	$(BIN)/hitnet traverse demo/run --class 3 --out demo/traversal.png
	@echo "3. The same digits: which labels are wrong?"
	$(BIN)/hitnet audit mnist-sample --out demo/audit

# A change is what differs from where your branch left BASE, committed or not. Tests marked slow, browser or gpu are left
# out, and none starts after 100 seconds (45 of its own, if the linters took long); the last lines say so.
BASE ?= main
check: setup
	@start=$$(date +%s); $(LINT) && $(BIN)/python tools/changed_tests.py --base $(BASE) --until $$((start + 100))

# Tests that need a GPU or a browser are skipped where there is none; the summary says how to install it. A test that hangs
# fails after a minute (tests/hanging.py); on a busy machine, `HITNET_PATIENCE=3 make test` gives it three.
test: setup lint
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Damaged files of every kind, long commands killed at any moment, hostile requests; see docs/reliability.md.
SEED ?= 0
MINUTES ?= 40
KILLS ?= 500
attack: setup
	$(BIN)/python tests/attack/attack.py fuzz --seed $(SEED) --minutes $(MINUTES) --out attack
	$(BIN)/python tests/attack/attack.py kill --seed $(SEED) --minutes $(MINUTES) --kills $(KILLS) --out attack
	$(BIN)/python tests/attack/attack.py kill --only large --kills 20 --out attack/large
	$(BIN)/python tests/attack/attack.py serve --seed $(SEED) --minutes $(MINUTES) --kills $(KILLS) --soak 20 --out attack

# The paper's results: how far they are, and their time here; `make reproduce NAME=table1-constant` makes missing runs.
NAME ?= --list
reproduce: setup
	$(BIN)/python -m reproduction $(NAME)

# The documentation site, in site/. The tests build it too.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The files of a release, in dist/; see CONTRIBUTING.md.
dist: setup
	rm -rf build dist
	$(BIN)/python -m build

# The wheel in an empty environment, with the newest packages, or e.g. VERSIONS="torch==2.4.0 numpy==1.26.0".
VERSIONS ?=
wheel: dist
	tools/try_wheel.sh $(PYTHON) dist/hitnet-*.whl $(VERSIONS)

lint: setup
	$(LINT)

clean:
	rm -rf $(VENV) build dist site demo attack runs .pytest_cache .mypy_cache .ruff_cache
