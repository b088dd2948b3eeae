# Everything runs in its own virtual environment; a fresh machine needs python3 >= 3.11 and make.
PYTHON ?= python3
VENV ?= .venv
# Without torch, for interpreters that have no small build of it: make test EXTRAS=control,dev
EXTRAS ?= all,dev
BIN := $(VENV)/bin
comma := ,
# What the gates of examples/dmc_gates say, in their order.
DEMO := MODEL BOTTLENECK,MODEL BOTTLENECK,PLANNER BOTTLENECK,MODEL AS GOOD AS ORACLE
INSTALLED := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))
# Small matrices are slower on two threads than on one.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: help demo test lint format bench bench-gpu calibrate wheel install clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv and install the package with its extras

$(INSTALLED): pyproject.toml constraints.txt
	@echo "Installing pytest-cpg[$(EXTRAS)] into $(VENV); the first time takes a few minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(INSTALLED) ## Train world models and gate them on DeepMind Control
	@mkdir -p build && rm -f build/demo.xml
	@cd examples/dmc_gates && $(CURDIR)/$(BIN)/python -m pytest -v -p no:cacheprovider \
	    --junit-xml=$(CURDIR)/build/demo.xml; test $$? -eq 1
	@found="$$(grep -o 'cpg_verdict" value="[^"]*' build/demo.xml | cut -d'"' -f3 | paste -sd,)"; \
	    test "$$found" = "$(DEMO)" || { echo "expected $(DEMO), found $$found"; exit 1; }
	@echo "Three gates failed and one passed, as they should: README.md says what each shows."

test: $(INSTALLED) ## Run the test suite
	$(BIN)/python -m pytest -m "not slow" -n 2

lint: $(INSTALLED) ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED) ## Measure speed against bare loops and print the table
	$(BIN)/python -m benchmarks

bench-gpu: $(INSTALLED) ## Measure latent planning on a graphics processor, where there is one
	$(BIN)/python -m benchmarks.gpu

calibrate: $(INSTALLED) ## Run the slow calibration tests and print their tables
	$(BIN)/python -m pytest -m slow -s

wheel: $(INSTALLED) ## Build the wheel and run the maze example on it, without any extra
	rm -rf build/wheel
	$(BIN)/python -m build --quiet --wheel --outdir build/wheel
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt build/wheel/*.whl
	cp -r examples/maze build/wheel/maze
	cd build/wheel/maze && ../venv/bin/python -m pytest -p no:cacheprovider

clean: ## Remove the environment and everything generated
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .import_linter_cache
	find . \( -name __pycache__ -o -path '*/.cpg/lost' \) -type d -prune -exec rm -rf {} +
