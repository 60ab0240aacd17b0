# `make demo` audits and trains on the samples that ship with the package; `make test` runs linters and tests.
# Both first install the package and its development tools into VENV. Neither needs root.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup demo test lint docs dist attack reproduce clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup
	@rm -rf demo
	@echo "1. Photographs of clothes: which labels are wrong?"
	$(BIN)/hitnet audit clothing-sample --out demo/clothes
	@echo "2. The paper's digits: train a network, and draw what it has learned"
	$(BIN)/hitnet train mnist-sample --out demo/run
	$(BIN)/hitnet prototypes demo/run --out demo/prototypes.png
	$(BIN)/hitnet traverse demo/run --class 3 --out demo/traversal.png
	@echo "3. The same digits: which labels are wrong?"
	$(BIN)/hitnet audit mnist-sample --out demo/audit

# Tests that need a GPU or a browser are skipped where there is none; the summary says how to install it.
test: setup lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# Damaged files of every kind, and long commands killed at any moment; see docs/reliability.md.
SEED ?= 0
MINUTES ?= 40
KILLS ?= 500
attack: setup
	$(BIN)/python tests/attack/attack.py fuzz --seed $(SEED) --minutes $(MINUTES) --out attack
	$(BIN)/python tests/attack/attack.py kill --seed $(SEED) --minutes $(MINUTES) --kills $(KILLS) --out attack

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

lint: setup
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist site demo attack runs .pytest_cache .mypy_cache .ruff_cache
