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
# What the demo needs: nothing more unless it is there already.
FOR_DEMO := $(firstword $(wildcard $(INSTALLED)) $(VENV)/.installed-control-safetensors)
# Which tests make test runs, as pytest's -m.
TESTS ?= not slow and not docs
# Which files make calibrate runs; all of them by default.
CALIBRATED ?=
# Small matrices are slower on two threads than on one.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
# pytest rewrites every module of a plugin, in every process where none has written it down.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test pythons docs clients portability lint format bench bench-clients bench-gpu \
    calibrate causal causal-smoke reproduce reproduce-long wheel install clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv and install the package with its extras

$(VENV)/.installed-%: pyproject.toml constraints.txt
	@echo "Installing pytest-cpg[$(subst -,$(comma),$*)] into $(VENV); the first time takes a few minutes."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint constraints.txt --editable '.[$(subst -,$(comma),$*)]'
	@touch $@

demo: $(FOR_DEMO) ## Gate world models on DeepMind Control
	@mkdir -p build && rm -f build/demo.xml
	@cd examples/dmc_gates && $(CURDIR)/$(BIN)/python -m pytest -v -p no:cacheprovider \
	    --junit-xml=$(CURDIR)/build/demo.xml; test $$? -eq 1
	@found="$$(grep -o 'cpg_verdict" value="[^"]*' build/demo.xml | cut -d'"' -f3 | paste -sd,)"; \
	    test "$$found" = "$(DEMO)" || { echo "expected $(DEMO), found $$found"; exit 1; }
	@echo "Three gates failed and one passed, as they should: README.md says what each shows."

test: $(INSTALLED) ## Run the test suite
	@# Tests start hundreds of processes, and would compile it in each.
	@$(BIN)/python -m compileall -q pytest_cpg
	$(BIN)/python -m pytest -m "$(TESTS)" -n 2

# What can be installed differs: 3.12 may have no small build of torch, and 3.13 no dm-control.
pythons: ## Run the test suite on Python 3.11, 3.12 and 3.13, each in its own environment
	@for of in 3.11:all,dev 3.12:control,dev 3.13:dev; do \
	    version=$${of%%:*}; \
	    command -v python$$version >/dev/null || { \
	        echo "There is no python$$version here: install it, or run make test PYTHON=..."; exit 1; }; \
	    $(MAKE) --no-print-directory test PYTHON=python$$version VENV=.venv$$version \
	        EXTRAS=$${of#*:} || exit 1; \
	done

docs: $(INSTALLED) ## Build the site of docs/ into build/docs, and run what it shows
	@# No picture is drawn here, and tasks of MuJoCo would ask for a display.
	MUJOCO_GL=disable $(BIN)/python -m sphinx -n -W --keep-going -q -b html -d build/doctrees \
	    docs build/docs
	$(BIN)/python -m pytest -m docs -n 2

clients: ## Gate models of JAX, TorchRL, mbrl-lib, DreamerV3, others, OGBench (1 GB)
	@$(MAKE) --no-print-directory install EXTRAS=all,clients,dev
	@# Alone: it asks for an old Gymnasium, and for Jupyter, which its models do without.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --constraint constraints.txt mbrl
	CLIENTS=all $(BIN)/python -m pytest -n 2 -rs tests/plugin/test_bring_your_model.py \
	    tests/world_models/test_jax.py \
	    $(addprefix tests/plugin/test_examples.py::,test_a_lewm_sees_pictures_of_goals \
	    test_a_lewm_is_gated_with_its_own_solver_in_its_own_rooms \
	    test_a_network_of_ogbenchs_point_maze_is_a_gate \
	    test_a_visual_id_of_ogbench_is_a_gate_and_draws_what_its_model_is_asked_about) \
	    tests/tasks/test_pixels.py::test_visual_ids_of_ogbench_move_as_those_of_numbers_and_look_as_they_do

portability: $(INSTALLED) ## Run demo and test suite under the kernels of other processors
	.ci/other-kernels $(MAKE) demo test TESTS="not slow"

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

bench-clients: $(INSTALLED) ## Compare planning with the solver of stable-worldmodel, where it is installed
	$(BIN)/python -m benchmarks.clients

bench-gpu: $(INSTALLED) ## Measure latent planning on a graphics processor, where there is one
	$(BIN)/python -m benchmarks.gpu

calibrate: $(INSTALLED) ## Run the slow calibration tests and print their tables
	$(BIN)/python -m pytest -m slow -s $(CALIBRATED)

causal: $(INSTALLED) ## Train models of causal worlds, and write their tables (40 CPU minutes)
	cd examples/causal_worlds && $(CURDIR)/$(BIN)/python causal.py

causal-smoke: $(INSTALLED) ## Train one of them for a minute, and run its gates
	cd examples/causal_worlds && $(CURDIR)/$(BIN)/python -m pytest -p no:cacheprovider

reproduce: $(INSTALLED) ## Check the cheap published experiments against their results (3 minutes)
	cd examples/experiments && $(CURDIR)/$(BIN)/python reproduce.py --check

# What is there is not run again; reproduce.py --help says how to run cells side by side, or all anew.
reproduce-long: $(INSTALLED) ## Run the published experiments that have no result yet (hours)
	cd examples/experiments && $(CURDIR)/$(BIN)/python reproduce.py

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
	rm -rf .import_linter_cache docs/tasks docs/reference
	find . \( -name __pycache__ -o -path '*/.cpg/lost' -o -path '*/.cpg/history' \) -prune -exec rm -rf {} +
