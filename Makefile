# Every target makes its own virtual environment first, so each works as the first command in a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
READY  := $(VENV)/.ready
WARM   := $(VENV)/.collected
PROTOS := app/tenancy/proto app/rmd/proto
TESTS  := tests
CORES   = $$($(PYTHON) -c 'import os; print(os.cpu_count())')

.DEFAULT_GOAL := help
# Hundreds of short-lived processes would each compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help demo test unit e2e conformance real real-all real-oldest real-parts peers fuzz lint format generate secrets bench bench-apiserver screenshots protos lock clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What runs Berth is less than a third of what develops it: the demo waits for no more.
$(RUNS): requirements.lock requirements-build.lock pyproject.toml
	@echo "==> Making the virtual environment in $(VENV) (once, half a minute); pip says what it does"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Error: Berth needs Python 3.11 or newer; set PYTHON=python3.x")'
	@test ! -L $(VENV) || { echo "Error: $(VENV) is a link, and what it links to would be cleared: remove the link" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock -r requirements-build.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "==> Ready: $$($(BIN)/berth --version), $$($(BIN)/python --version)"

$(READY): requirements-dev.lock $(RUNS)
	@echo "==> Adding what develops and tests Berth (once, about a minute); pip says what it does"
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# In a fresh clone each worker would rewrite the assertions of all tests, all of them at the same time.
$(WARM): $(READY)
	@echo "==> Compiling the tests (once)"
	@# What cannot be collected is reported by the run itself.
	@$(BIN)/python -m pytest --collect-only > $(VENV)/collected.log 2>&1 || true
	@touch $@

demo: $(RUNS) ## Start a sandbox and play the examples, step by step
	@$(BIN)/berth demo

test: $(WARM) ## Run all tests
	@echo "==> Tests (some minutes on two cores)"
	@# Many tests wait for processes, so four workers more than cores. In the order of the files: the few long ones come first.
	@$(BIN)/python -m pytest -n $$(( $(CORES) + 4 )) --dist loadfile --no-loadscope-reorder -rs $(PYTEST_ARGS)

unit: $(READY) ## Run the tests that start no process and no whole API server
	@# None waits for a process, and each worker collects all tests: one for each core.
	@$(BIN)/python -m pytest tests/unit -n $(CORES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

e2e: $(READY) ## Run the end-to-end tests alone (KUBEBUILDER_ASSETS=dir or E2E_ARGS="--kubeconfig NAME=FILE" for real API servers)
	@$(BIN)/python -m pytest tests/e2e $(E2E_ARGS)

conformance: $(READY) ## Run the tests that state what an API server does on a real one (KUBEBUILDER_ASSETS=dir)
	@test -x "$(KUBEBUILDER_ASSETS)/kube-apiserver" || { echo "Error: KUBEBUILDER_ASSETS is not a directory with etcd and kube-apiserver" >&2; exit 1; }
	@$(BIN)/python -m pytest tests -m conformance $(PYTEST_ARGS)

real-parts: $(READY) ## Build the real components from pinned modules (needs Go; PARTS="kube-apiserver etcd" builds some)
	@$(BIN)/python -m tests.real $(PARTS)

real: REAL := control-plane clients
real: $(READY) ## Run the tests for real API servers, Helm and grpcurl (needs Go: builds these first)
real-all: REAL := control-plane clients neighbors node
real-all: $(READY) ## The same, beside Kueue, in Prometheus and on a node (longer builds)
real-oldest: REAL := --oldest control-plane clients
real-oldest: TESTS := tests/e2e $(addprefix tests/integration/,appwrappers chart runtime workloads)
real-oldest: $(READY) ## What concerns Berth, with the oldest Kubernetes that is supported (the sandbox stands for the newest)
real real-all real-oldest:
	@assets=$$($(BIN)/python -m tests.real $(REAL)) && KUBEBUILDER_ASSETS=$$assets PATH="$$assets:$$PATH" \
		$(BIN)/python -m pytest $(TESTS) -m "conformance or e2e or real" -n $$(( $(CORES) + 2 )) --dist loadfile -rs $(PYTEST_ARGS)

peers: $(READY) ## Have the code of Kueue, Multus, kubectl and Kubernetes answer our cases (needs Go; PEERS_ARGS=--check compares)
	@$(BIN)/python -m tests.peers $(PEERS_ARGS)

fuzz: $(READY) ## Send reviews of every kind at their worst, and 100,000 random ones (FUZZ_ARGS="--inputs N --seed N")
	@$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

lint: $(READY) ## Check style, types, layers, the Dockerfile, secrets, and that what is generated is fresh
	@echo "==> ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .
	@echo "==> mypy" && $(BIN)/mypy
	@echo "==> import-linter" && $(BIN)/lint-imports
	@echo "==> hadolint" && $(BIN)/hadolint Dockerfile
	@echo "==> detect-secrets" && $(BIN)/python .ci/find_secrets.py
	@echo "==> generated pages" && $(BIN)/python -m docs.generate --check

format: $(READY) ## Format the code
	@$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .

generate: $(READY) ## Generate docs/reference, docs/pictures, the chart's definitions and roles, and app/kinds/openapi.json
	@$(BIN)/python -m docs.generate

secrets: $(READY) ## Take what the secrets scan finds now for harmless: look at the difference before it is committed
	@$(BIN)/python .ci/find_secrets.py --accept

bench: $(READY) ## Measure and write docs/bench*.md; fails where a figure is worse than kept (BENCH_ARGS=--keep keeps them)
	@$(BIN)/python -m bench $(BENCH_ARGS)

screenshots: $(READY) ## Take the pictures of the page for docs/ui.md (needs Chromium)
	@$(BIN)/python -m tests.support.screenshots

bench-apiserver: $(READY) ## Measure what admission costs at a real kube-apiserver (needs Go, or KUBEBUILDER_ASSETS=dir)
	@assets=$${KUBEBUILDER_ASSETS:-$$($(BIN)/python -m tests.real control-plane)} && \
		$(BIN)/python -m bench.admission --assets $$assets $(BENCH_ARGS)

protos: $(READY) ## Generate the gRPC code anew from the .proto files
	@# The generator imports by the protos' own paths; ours are below the package.
	@for folder in $(PROTOS); do \
	  (cd $$folder && $(CURDIR)/$(BIN)/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. $$(find . -name '*.proto' -printf '%P\n')) || exit; \
	  package=$$(echo $$folder | tr / .); \
	  find $$folder -name '*_pb2*.py*' -exec sed -i -E "s/^from (universe|podresources|deviceplugin)\./from $$package.\1./" {} +; \
	done

lock: ## Pin all dependencies anew (needs uv)
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade -o requirements.lock
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --upgrade -o requirements-dev.lock
	uv pip compile --group pyproject.toml:build --constraints requirements-dev.lock --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements-build.lock

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
