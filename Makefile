# Two commands matter: `make up` serves, `make test` tests. Both work on a bare machine with Python 3.11 or newer.
BIN := .venv/bin
# Stamps: present and newer than pyproject.toml = installed as it says.
RUNTIME := .venv/.runtime
DEV := .venv/.dev
# What decides: 90 % of its branches are to be tested.
CORE := memory_service/domain/*,memory_service/service/*,assembler_service/domain/*,assembler_service/service/*
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help venv up test test-fast eval bench chaos lint gen baseline

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | \
	  while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

venv: $(DEV) ## Build .venv with everything that tests and checks need

up: $(RUNTIME) ## Serve both in the foreground: SQLite, exact search, bundled model, nothing to set
	@exec $(BIN)/python deploy/dev/up.py

test: $(DEV) ## Run every test, with private MariaDB, Redis and Milvus servers on loopback
	@deploy/dev/install_servers.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder \
	  --cov --cov-report=term:skip-covered
	@$(BIN)/coverage report --fail-under=90 --include='$(CORE)' >/dev/null || \
	  { echo 'branch coverage of domain/ and service/ is under 90 %' >&2; exit 1; }

test-fast: $(DEV) ## Run the tests that need no server
	@PATH="$(CURDIR)/$(BIN):$$PATH" PALIMPSEST_TEST_SERVERS=none $(BIN)/pytest

eval: $(DEV) ## Measure quality (no network): one table, and JSON in eval-results/
	@$(BIN)/python -m tests.evals.run

bench: $(DEV) ## Measure speed and size on this machine: one table, and its history in bench-results/
	@$(BIN)/python -m tests.benchmarks.run

chaos: $(DEV) ## Kill servers at every step, PALIMPSEST_TEST_ROUNDS times (20; 200 take about an hour)
	@deploy/dev/install_servers.sh
	@PATH="$(CURDIR)/$(BIN):$$PATH" PALIMPSEST_TEST_ROUNDS=$${PALIMPSEST_TEST_ROUNDS:-20} \
	  $(BIN)/pytest tests/chaos tests/acceptance/test_extraction.py -k 'crash or killed'

lint: $(DEV) ## Check style, types, import directions and the contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/baseline.binpb

gen: $(DEV) ## Generate shared/gen from protos/
	@$(BIN)/python deploy/dev/gen_protos.py

baseline: $(DEV) ## Make today's contract the one that must not break: with a release, and never to silence a break
	$(BIN)/buf build protos -o protos/baseline.binpb

$(RUNTIME): pyproject.toml
	@deploy/dev/make_venv.sh
	@echo 'installing what the service needs (once)'
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# pip before 25.1 knows no dependency groups.
$(DEV): pyproject.toml
	@deploy/dev/make_venv.sh
	@$(BIN)/python -m pip install --help | grep -q -e '--group' || $(BIN)/python -m pip install --quiet --upgrade pip
	@echo 'installing what the service, its tests and its checks need (once)'
	@$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $(RUNTIME) $@
