# `make demo` and `make test` are all a newcomer needs; both set up .venv by themselves.

VENV   ?= .venv
PYTHON ?= python3
BIN     = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-core lint bench clean

help:
	@echo "make demo       install the core and audit small networks trained on digits (a minute)"
	@echo "make test       install what tests need and run them"
	@echo "make test-core  run the core's tests in $(VENV)-core, without the extras"
	@echo "make lint       formatting, types, and the direction of imports"
	@echo "make bench      the benchmarks, as ratios measured in one run"
	@echo "make clean      remove the virtual environments and caches"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing identikit's core into $(VENV) ..."
	$(INSTALL) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing identikit and what its tests need into $(VENV) ..."
	$(INSTALL) -e '.[dev,hf,dask,io,gpu,ica,causal,rl,stores]'
	@touch $@

$(VENV)-core/.tests: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-core
	$(VENV)-core/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e . pytest hypothesis
	@touch $@

demo: $(VENV)/.core
	$(BIN)/identikit demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadfile $(PYTEST_ARGS)

test-core: $(VENV)-core/.tests
	$(VENV)-core/bin/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/family.py
	$(BIN)/python benchmarks/learn.py
	$(BIN)/python benchmarks/extract.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/components.py
	$(BIN)/python benchmarks/ica.py
	$(BIN)/python benchmarks/disentangle.py
	$(BIN)/python benchmarks/worlds.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/recover.py
	$(BIN)/python benchmarks/migrate.py

clean:
	rm -rf $(VENV) $(VENV)-core .pytest_cache .mypy_cache .ruff_cache .hypothesis
