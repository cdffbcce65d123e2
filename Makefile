# Every door into the project: `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Airflow starts twice as fast with its bytecode in place.
unexport PYTHONDONTWRITEBYTECODE

export PYTHON ?= python3.11
PROFILE ?= default
ARGS ?=
DEMOS ?= 2
UV := .bootstrap/bin/uv
PY := .venv/bin/python
PY_HEAVY := .venv-heavy/bin/python
PY_LOWEST := .venv-lowest/bin/python
VENV_PYTHON := .venv-$(notdir $(PYTHON))

NEWEST := constraints/newest.txt
LOWEST := constraints/lowest.txt
LOWEST_DATE := 2025-10-15
# Collecting a tier's tests takes that tier's packages.
BY_THEMSELVES := --ignore=tests/browser --ignore=tests/cluster
# With loadscope, xdist may wait for ever for the process that replaces a killed one: the run ends instead.
BY_SCOPE := --dist=loadscope --max-worker-restart=0
# Most of the time these tests wait for processes: three of the four have an Airflow (tests/conftest.py). ARGS=-n0 runs
# them one by one, for a debugger.
FOUR_AT_ONCE := --numprocesses=4 $(BY_SCOPE)
LIGHT := $(BY_THEMSELVES) $(FOUR_AT_ONCE) -m "not heavy and not slow"
# What is done at full scale before a release.
DRILLS := tests/unit/operators/test_hostile_fields.py tests/airflow/test_scheduler.py tests/airflow/test_crowd.py tests/cluster/airflow/test_chaos.py tests/cluster/airflow/test_disruptions.py

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## List these commands.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS=$$'\t' read -r name text; do printf '  \033[1m%-22s\033[0m %s\n' "$$name" "$$text"; done
	@echo
	@echo '  PYTHON=python3.12  the Python to use (now $(PYTHON))      ARGS="-k name -x"  handed on to pytest'
	@echo '  PROFILE=name       the test cluster to start (now $(PROFILE))'

venv: ## Make .venv: the package, the light frameworks (xgboost, mpi) and the development tools.
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev

demo: venv ## Run a retraining DAG through a real Airflow and print what the job reported.
	@$(PY) -m tools.airflow_runner demo

up: venv ## Start Airflow with its UI and the example DAGs, and print the address.
	@$(PY) -m tools.airflow_runner up

down: venv ## End what `make up` started, and every process that came of it.
	@$(PY) -m tools.airflow_runner down

test: venv ## Run every test that needs no cluster, browser or heavy framework, and is not slow.
	$(PY) -m pytest $(LIGHT) $(ARGS)

test-slow: venv ## Run the tests that take minutes of a processor (15 minutes).
	$(PY) -m pytest $(BY_THEMSELVES) $(FOUR_AT_ONCE) -m slow $(ARGS)

test-heavy: ## Run the tests that need torch, transformers, tensorflow, jax and paddle, in .venv-heavy (6 GB).
	@tools/environment.sh .venv-heavy $(NEWEST) xgboost,mpi,torch,tensorflow,jax,paddle dev heavy
	$(PY_HEAVY) -m pytest $(BY_THEMSELVES) -m heavy $(ARGS)

test-airflow-lowest: ## Run what `make test` runs on the lowest supported Airflow, in .venv-lowest.
	@tools/environment.sh .venv-lowest $(LOWEST) xgboost,mpi dev
	$(PY_LOWEST) -m pytest $(LIGHT) $(ARGS)

test-python: ## Run what `make test` runs on another Python, in an environment of its own: PYTHON=python3.13.
	@tools/environment.sh $(VENV_PYTHON) $(NEWEST) xgboost,mpi dev
	$(VENV_PYTHON)/bin/python -m pytest $(LIGHT) $(ARGS)

mutants: venv ## Break the package in each way that tools/mutants/lists names: a test has to notice (ARGS="-k cluster/end").
	$(PY) -m tools.mutants $(ARGS)

test-postgresql: ## Run the tests that have a real Airflow with PostgreSQL for its database (Debian's package).
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev postgresql
	TRAINER_RUNNER_DATABASE=postgresql $(PY) -m pytest $(FOUR_AT_ONCE) -m "not heavy" tests/airflow $(ARGS)

test-storms: venv ## Run 10,000 storms over the readers of logs, in virtual time (10 minutes).
	TRAINER_TEST_SCALE=full $(PY) -m pytest --numprocesses=2 --max-worker-restart=0 tests/unit/cluster/logs/test_storm.py $(ARGS)

test-loops: venv ## Run the tests of coroutines in asyncio's debug mode, and look for callbacks that take long (15 minutes).
	TRAINER_TEST_LOOPS=1 $(PY) -m pytest --numprocesses=2 $(BY_SCOPE) -m "not heavy" $(or $(ARGS),tests/unit tests/contract)

test-newcomer: ## Run `make demo` twice in a copy of this checkout with an empty home, and `make down`.
	@tools/newcomer.sh $(DEMOS)

test-browser: ## Look at a demo run and the Training views in the real UI, in chromium.
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev browser
	$(PY) -m pytest tests/browser $(ARGS)

test-browser-lowest: ## Look at the Training tab of real jobs in the UI of the lowest supported Airflow.
	@tools/environment.sh .venv-lowest $(LOWEST) xgboost,mpi dev browser
	$(PY_LOWEST) -m pytest tests/browser/training_tab $(ARGS)

screenshots: ## Take the pictures for the docs again, in chromium.
	@UPDATE_SCREENSHOTS=1 $(MAKE) test-browser

cluster-up: cluster-venv ## Start a Kubernetes cluster on this machine (root; PROFILE names its contents).
	$(PY) -m tests.cluster up --profile $(PROFILE)

cluster-down: cluster-venv ## End that cluster.
	$(PY) -m tests.cluster down

cluster-build: cluster-venv ## Build what that cluster needs into the cache (35 minutes).
	$(PY) -m tests.cluster build

test-smoke: cluster-venv ## Run the smoke tests of all backends on that cluster (6 minutes).
	$(PY) -m tests.cluster smoke $(ARGS)

test-cluster: cluster-venv ## Run the tests that need a cluster.
	$(PY) -m tests.cluster test

test-chaos: ## Run the drills at full scale, on the newest Airflow with PostgreSQL and the lowest (make cluster-up first; 45 minutes).
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev cluster postgresql
	@tools/environment.sh .venv-lowest $(LOWEST) xgboost,mpi dev
	TRAINER_TEST_SCALE=full TRAINER_RUNNER_DATABASE=postgresql $(PY) -m pytest $(DRILLS) $(ARGS)
	TRAINER_TEST_SCALE=full $(PY_LOWEST) -m pytest $(DRILLS) $(ARGS)

verdicts: cluster-venv ## Write docs/reference/verdicts.md from how jobs fail on a cluster (20 minutes).
	$(PY) -m tests.cluster.verdicts $(ARGS)

cluster-venv:
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev cluster

lint: venv ## Check style, docstrings, imports and words, and that no function is too complex.
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m tools.words
	$(PY) -m tools.complexity airflow_trainer_provider tools benchmarks dags

format: venv ## Rewrite what ruff can.
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

typecheck: venv ## Check types (mypy, strict).
	$(PY) -m mypy

contracts: venv ## Check that the layers hold (import-linter).
	.venv/bin/lint-imports

docs: ## Build the documentation into docs/_build/html; a warning is an error.
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev docs
	$(PY) -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -b html docs docs/_build/html

bench: ## Measure the provider beside what people would use without it, and write docs/explanation/performance (35 minutes).
	@tools/environment.sh .venv $(NEWEST) xgboost,mpi dev browser cluster postgresql bench
	$(PY) -m benchmarks $(ARGS)

constraints: venv ## Resolve constraints/ again: the newest of everything, and the lowest Airflow.
	$(UV) pip compile --quiet --universal --upgrade --python-version 3.10 --no-annotate \
	    --custom-compile-command "make constraints" --all-extras \
	    --group dev --group docs --group browser --group cluster --group heavy --group postgresql --group bench pyproject.toml --output-file $(NEWEST)
	$(UV) pip compile --quiet --universal --upgrade --python-version 3.10 --no-annotate \
	    --custom-compile-command "make constraints" --extra xgboost --extra mpi --group dev --group browser \
	    --exclude-newer $(LOWEST_DATE) --exclude-newer-package apache-airflow-providers-common-compat=2026-11-01 \
	    --exclude-newer-package kubeflow-trainer-api=2026-11-01 \
	    --exclude-newer-package import-linter=2026-11-01 --exclude-newer-package grimp=2026-11-01 \
	    pyproject.toml constraints/lowest.in --output-file $(LOWEST)

gate: ## Run what decides whether a change lands (.ci/run; at most 25 minutes).
	@bash .ci/run

check-all: ## Run every stage there is (.ci/all; 70 minutes), or some: ARGS="lint browser", ARGS=--list.
	@bash .ci/all $(ARGS)

clean: ## Remove what these commands made, environments included (make down first).
	@! test -e .airflow/up/instance.json || { echo "Airflow is up: make down first." >&2; exit 1; }
	rm -rf .venv .venv-* .bootstrap .airflow .hypothesis .mypy_cache .pytest_cache .ruff_cache docs/_build
