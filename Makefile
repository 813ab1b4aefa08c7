# Two commands for a fresh machine with Python 3.11 or newer, git and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser chromium lint docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(CORE) ## run the multi-session benchmark on the bundled features; table here, figures and page in report/
	@$(BIN)/subspan bench --report report

test: lint docs ## everything a change must pass: lint, types, import contract, manual, tests with doctests
	@echo "== tests"
	@$(BIN)/pytest -n 2

test-browser: $(DEV) chromium ## the page of `subspan serve` in a real Chromium
	@$(BIN)/pytest tests/serve/test_serve_page.py

chromium: ## install Debian's Chromium where there is none and apt can
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit; done; \
		echo "== installing chromium"; export DEBIAN_FRONTEND=noninteractive; \
		{ apt-get -qq update && apt-get -qq install -y chromium; } > /dev/null 2>&1 \
		|| echo "chromium could not be installed: the tests of the page will be skipped"

lint: $(DEV) ## style, format, types, import contract
	@echo "== style"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@echo "== types"
	@$(BIN)/pyright
	@echo "== import contract"
	@$(BIN)/lint-imports

docs: $(DEV) ## build the manual into site/
	@echo "== manual"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove what the other targets made, the environment included
	rm -rf $(VENV) site report build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Two OpenMP threads per test worker would collapse on a busy machine.
test test-browser: export OMP_NUM_THREADS := 1
# pyright comes whole from PyPI, its Node.js included: never look for another one, nor for a newer version.
lint: export PYRIGHT_PYTHON_GLOBAL_NODE := 0
lint: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# pip is the last thing venv installs: an interrupted set-up starts again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Subspan needs Python 3.11 or newer, this is " \
		+ sys.version.split()[0] + "; name another one: make PYTHON=python3.12 ...")'
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing Subspan with PyTorch, some minutes on a slow line"
	@$(PIP) -e .
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing Subspan with PyTorch and the development tools, some minutes on a slow line"
	@$(PIP) -e '.[dev]'
	@touch $(CORE) $@
