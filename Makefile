# Two commands for a fresh machine with Python 3.11 or newer, git and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt
RESEARCH := $(VENV)/.installed-research
DEV := $(VENV)/.installed-dev

# Feature files for which the larger parts of systems are trained when somebody wants the tables of systems.
TRAINED_AGAIN := paper-fixed.npz $(patsubst %,paper-random-%.npz,2 3 5 6 7 8 9 10) strong-fixed.npz strong-ravi.npz

.DEFAULT_GOAL := help
.PHONY: help demo check lock docs test test-slow test-pythons chromium parts clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(RESEARCH) ## the multi-session benchmark on the bundled features, then the quick start on photographs; pages in report/
	@$(BIN)/subspan bench --report report
	@echo "== the quick start, docs/quickstart.md"
	@rm -rf report/hands.subspan report/comparison
	@sed -n 's/^\$$ subspan //p' docs/quickstart.md | sed 's| hands| report/hands|; s|--out |&report/|' | \
		while read -r line; do echo "$$ subspan $$line"; $(BIN)/subspan $$line || exit 1; done

test: check docs ## everything a change must pass: check, manual, tests with doctests; three to six minutes on two cores
	@echo "== tests"
	@$(BIN)/pytest -n 2 -m "not slow" --durations 10

test-slow: $(DEV) chromium ## what is long by nature: fuzzing, kills, compilers, several processes, Ray, the page in Chromium, known holes
	@echo "== slow tests"
	@$(BIN)/pytest -n 2 -m slow --durations 10

test-pythons: ## what needs no PyTorch, on the other Python versions of this machine
	@.ci/other-pythons

chromium: ## install Debian's Chromium where there is none and apt can
	@for name in chromium chromium-browser google-chrome; do command -v $$name > /dev/null && exit; done; \
		echo "== installing chromium"; export DEBIAN_FRONTEND=noninteractive; \
		{ apt-get -qq update && apt-get -qq install -y chromium; } > /dev/null 2>&1 \
		|| echo "chromium could not be installed: the tests of the page will be skipped"

check: $(DEV) ## style, format, types, import contract, security; under a minute
	@echo "== style"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@echo "== types"
	@$(BIN)/pyright
	@echo "== import contract"
	@$(BIN)/lint-imports
	@echo "== security"
	@$(BIN)/bandit --quiet --configfile pyproject.toml --recursive src

lock: $(DEV) ## write container.lock again: what the container of docs/deploy.md installs, with hashes
	@echo "hatchling" | $(BIN)/uv pip compile pyproject.toml - --extra serve --upgrade --generate-hashes --python-version 3.12 \
		--python-platform x86_64-manylinux_2_28 --no-annotate --no-emit-index-url --quiet --output-file container.lock \
		--custom-compile-command "make lock"

docs: $(DEV) ## build the manual into site/
	@echo "== manual"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

parts: $(RESEARCH) ## train the parts of systems that are not in the repository, the very same ones, some 15 minutes on two cores
	@printf '%s\n' $(addprefix benchmarks/features/,$(TRAINED_AGAIN)) | xargs -n 1 -P 2 $(BIN)/python \
		benchmarks/make_parts.py --system cec --system etf --system semantic-distill --out benchmarks/systems

clean: ## remove what the other targets made, the environment included
	rm -rf $(VENV) site report build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# Two OpenMP threads per test worker would collapse on a busy machine.
test test-slow parts: export OMP_NUM_THREADS := 1
# pyright comes whole from PyPI, its Node.js included: never look for another one, nor for a newer version.
check: export PYRIGHT_PYTHON_GLOBAL_NODE := 0
check: export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

# pip is the last thing venv installs: an interrupted set-up starts again.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Subspan needs Python 3.11 or newer, this is " \
		+ sys.version.split()[0] + "; name another one: make PYTHON=python3.12 ...")'
	@echo "== creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(RESEARCH): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing Subspan with PyTorch, some minutes on a slow line"
	@$(PIP) -e '.[research]'
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/pip
	@echo "== installing Subspan with PyTorch and the development tools, some minutes on a slow line"
	@$(PIP) -e '.[dev]'
	@touch $(RESEARCH) $@
