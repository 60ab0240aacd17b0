# Two commands: `make demo` shows the main job on data that ships with the package, `make test` runs all tests.
# Both set up what they need first, in VENV.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: setup browser demo test lint clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The review page is tested in a real browser.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	|| (apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null) \
	|| (echo "The tests need chromium and chromedriver on the PATH; please install them." >&2; exit 1)

demo: setup
	@rm -rf demo
	@echo "1. Train on the sample that ships with the package, and look at what was learned"
	$(BIN)/hitnet train mnist-sample --out demo/run
	$(BIN)/hitnet prototypes demo/run --out demo/prototypes.png
	$(BIN)/hitnet traverse demo/run --class 3 --out demo/traversal.png
	@echo "2. Which of its labels are wrong?"
	$(BIN)/hitnet audit mnist-sample --out demo/audit

test: setup browser lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist demo runs .pytest_cache .mypy_cache .ruff_cache
