# What a newcomer needs: `make demo`, `make test`. Everything else is listed by `make help`.
# Installs into .venv, made with $(PYTHON) at the first call; `make clean` removes it.

PYTHON ?= python3
VENV ?= .venv
# Added to pytest's command line: make test ARGS="tests/unit -k retry"
ARGS ?=
# Test processes, each with a database of its own; the embedded server serves a few well.
SPREAD ?= -n auto --maxprocesses 4

BIN := $(VENV)/bin
# Twice quiet: errors only; a newcomer's first screen is not for notes on their pip settings.
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

# make demo ONCE=1: ends by itself once the orders are settled.
export ONCE
# make explore FULL=1: a kill at every boundary, and every fault everywhere.
export FULL

.DEFAULT_GOAL := help
.PHONY: help demo test check test-all browser chaos explore clean
# A failed install must not leave a stamp that says it is done.
.DELETE_ON_ERROR:

help:
	@echo "make demo      a shop whose orders survive a killed worker (ONCE=1: ends by itself)"
	@echo "make test      the test suite, against an embedded PostgreSQL or that of DATABASE_URL"
	@echo "make check     style, types, layout, migrations, examples of the docs"
	@echo "make test-all  the test suite on every supported pair of Python and Django found here"
	@echo "make browser   the admin in headless Chromium (needs chromium and chromedriver)"
	@echo "make chaos     workers killed at random for minutes"
	@echo "make explore   crashes at every statement of the reference flows (FULL=1: nothing left out)"
	@echo "make clean     remove environments, caches and the embedded servers' data"

demo: $(VENV)/.with-demo
	@$(BIN)/python -m example_project.demo

test: $(VENV)/.with-test
	$(BIN)/python -m pytest $(SPREAD) $(ARGS)

check: $(VENV)/.with-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@# No server runs here, and none is needed: only the models and the migrations are compared.
	DJANGO_SETTINGS_MODULE=tests.settings $(BIN)/python \
		-W "ignore:Got an error checking a consistent migration history:RuntimeWarning" \
		-m django makemigrations --check --dry-run
	$(BIN)/python -m pytest --quiet tests/docs

test-all: $(VENV)/.with-test
	$(BIN)/python tools/test_all.py -- $(SPREAD) $(ARGS)

browser: $(VENV)/.with-browser
	@$(BIN)/python tools/need_programs.py "make browser" chromium,chromium-browser,google-chrome chromedriver
	$(BIN)/python -m pytest tests/browser -m browser $(ARGS)

chaos: $(VENV)/.with-test
	$(BIN)/python -m pytest tests/acceptance -m chaos --timeout=1800 $(ARGS)

explore: $(VENV)/.with-test
	@$(BIN)/python -m tests.explorer $(ARGS)

clean:
	rm -rf $(VENV) .envs .postgres build dist
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each set of extras: the next call installs only if pyproject.toml changed.
$(VENV)/.with-demo: EXTRAS := demo
$(VENV)/.with-test: EXTRAS := test
$(VENV)/.with-dev: EXTRAS := dev,test
$(VENV)/.with-browser: EXTRAS := browser,test

$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	@echo "Installing django-durable-jobs[$(EXTRAS)] into $(VENV)"
	@$(PIP) install --editable ".[$(EXTRAS)]"
	@touch $@

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no '$(PYTHON)' on PATH: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c '' 2>/dev/null || { \
		echo "'$(PYTHON)' is on PATH but does not start: name another with make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "django-durable-jobs needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1): name another with make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make a virtual environment: install its venv module (on Debian the package python3-venv)." >&2; exit 1; }
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
