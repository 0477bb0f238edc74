# Everything a developer types. `make help` lists it; each target is quiet while all goes well.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
SPARK_VENV := .venv-spark
BIN := $(VENV)/bin
PY := $(BIN)/python
# What has no Docker builds images and runs clusters with the scripts in here.
CLUSTER ?= ../shared/cluster
IMAGE ?= localhost/bendybus:dev
SPARK_IMAGE ?= localhost/bendybus-spark:dev
ROOMS := $(wildcard domain protos amqp crds partition_server frontend operator client cli spark)
CODE := $(ROOMS) $(wildcard examples bench charts docs tests tools)
PROTOC_OUT = --python_out=$(1) --pyi_out=$(1) --grpc_python_out=$(1) --mypy_grpc_out=quiet:$(1)
# How tests are dealt over processes is in tests/conftest.py; ARGS=-n0 runs them one by one.
PARALLEL := --numprocesses=auto --dist=loadgroup --no-loadscope-reorder
# Tests and the demo start hundreds of processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: install
install: $(VENV)/.installed ## Make .venv with the pinned dependencies and Bendybus in it

$(VENV)/.installed: requirements/dev.txt requirements/demo.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Bendybus needs Python 3.11 or newer; name one with make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "install: virtual environment $(VENV) (pinned by version and hash; a minute or two)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || \
	  { echo "python3 -m venv failed: install your system's python3-venv package." >&2; exit 1; }
	@$(PY) -m pip install --quiet --require-hashes -r requirements/dev.txt
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --require-hashes -r requirements/demo.txt
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: demo
demo: install ## Run the main job on real data: a queue, a topic, sessions, an outage; count (2 minutes)
	@$(PY) examples/demo.py

.PHONY: test
test: install ## Run every test that needs no cluster
	@$(PY) -m pytest -q $(PARALLEL) $(ARGS)

# Rules, wire and servers in memory: what waits for nothing.
FAST ?= tests/domain tests/wire tests/amqp tests/crds tests/partition_server tests/frontend tests/operator tests/spark

.PHONY: test-fast
test-fast: install ## Run the tests that wait for nothing, at every save (45 s); FAST=tests/client: those of a folder
	@$(PY) -m pytest -q $(PARALLEL) -m "not integration and not slow" $(FAST) $(ARGS)

.PHONY: spark-install
spark-install: $(SPARK_VENV)/.installed ## Make .venv-spark with Spark and Bendybus in it (0.8 GB)

$(SPARK_VENV)/.installed: requirements/spark.txt requirements/demo.txt pyproject.toml
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	found=$$($$java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -1); \
	test "$${found:-0}" -ge 17 || \
	  { echo "Spark needs Java 17 or newer$${found:+ (found $$found)}: install one, or set JAVA_HOME." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Bendybus needs Python 3.11 or newer; name one with make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "spark-install: virtual environment $(SPARK_VENV) (pinned by version and hash; some minutes)"
	@test -x $(SPARK_VENV)/bin/python || $(PYTHON) -m venv $(SPARK_VENV)
	@$(SPARK_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/spark.txt
	@$(SPARK_VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --require-hashes -r requirements/demo.txt
	@$(SPARK_VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: test-spark
test-spark: spark-install ## Run the tests of the Spark room with real Spark (needs Java 17 or newer)
	@$(SPARK_VENV)/bin/python -m pytest -q tests/spark $(ARGS)

.PHONY: integration
integration: install ## Run the tests with real processes, files and gRPC only
	@$(PY) -m pytest -q -m integration $(PARALLEL) $(ARGS)

.PHONY: chaos
chaos: install ## Break a bus by seeds under load and judge the history: ARGS="--seeds=100 --seconds=10"
	@$(PY) -m tests.chaos $(ARGS)

.PHONY: mutants
mutants: install spark-install ## Break the code at each requirement, and some of it mechanically: a test must fail (an hour)
	@$(PY) -m tests.mutants $(ARGS)

.PHONY: walk
walk: install ## Print which files and functions each operation goes through, and hold them to their budgets
	@$(PY) -m tools.walk $(ARGS)

.PHONY: count
count: install ## Count files and lines of code by room: ARGS=REVISION for those of a commit
	@$(PY) -m tools.count $(ARGS)

.PHONY: azure-samples
azure-samples: install ## Run the samples of azure-servicebus on a bus with TLS (9 minutes, network, root for port 443)
	@$(PY) -m tests.azure_sdk.samples $(ARGS)

$(VENV)/.peers-installed: $(VENV)/.installed requirements/peers.txt
	@command -v cc >/dev/null || \
	  { echo "test-peers: a C compiler is needed, which builds the other implementation." >&2; exit 1; }
	@$(PY) -m pip install --quiet --no-build-isolation --require-hashes -r requirements/peers.txt
	@touch $@

.PHONY: test-peers
test-peers: $(VENV)/.peers-installed ## Run the tests against another implementation of AMQP (needs a C compiler, network)
	@$(PY) -m pytest -q tests/amqp_peers $(ARGS)

$(VENV)/.programs-installed: $(VENV)/.installed requirements/programs.txt requirements/rest.txt
	@test -x $(VENV)/programs/bin/python || $(PY) -m venv $(VENV)/programs
	@$(VENV)/programs/bin/python -m pip install --quiet --require-hashes -r requirements/programs.txt
	@test -x $(VENV)/rest/bin/python || $(PY) -m venv $(VENV)/rest
	@$(VENV)/rest/bin/python -m pip install --quiet --require-hashes -r requirements/rest.txt
	@touch $@

.PHONY: sdks
sdks: $(VENV)/.programs-installed ## Run official SDKs, Qpid JMS, Celery and Dapr on a bus (needs npm, Go 1.23, a JDK, mvn, Rust, .NET 10; network)
	@$(PY) -m pytest -q tests/sdks tests/programs $(ARGS)

.PHONY: sdk-tokens
sdk-tokens: install ## Run the SDKs of JavaScript, Go and Java for 10 minutes with tokens of 90 s: nothing is lost
	@$(PY) -m tests.sdks.token_load $(ARGS)

.PHONY: sdk-restarts
sdk-restarts: install ## Restart servers gracefully under the SDKs for Python and .NET: ARGS="--seeds=4 --seconds=60" (needs .NET 10)
	@$(PY) -m tests.sdks.restarts $(ARGS)

.PHONY: go-tests
go-tests: install ## Run the live tests of the SDK for Go against two buses (4 minutes, Go 1.23, network, root for port 443)
	@$(PY) -m tests.sdks.go_live $(ARGS)

.PHONY: js-tests
js-tests: $(VENV)/.programs-installed ## Run each operation of the SDK for JavaScript, whose package has no tests of its own (3 minutes, npm, network)
	@$(PY) -m pytest -q tests/sdks -k javascript $(ARGS)

.PHONY: azure-tests
azure-tests: install ## Run the tests of azure-servicebus against a bus (15 minutes, network, root for port 443)
	@$(PY) -m tests.azure_sdk $(ARGS)

.PHONY: azure-tokens
azure-tokens: install ## Run azure-servicebus for 10 minutes with tokens of 90 s: nothing is lost (root for port 443)
	@$(PY) -m tests.azure_sdk.tokens $(ARGS)

.PHONY: e2e
e2e: install ## Run the end-to-end tests: on the cluster of KUBECONFIG, or on one of CLUSTER's (half an hour)
	@BENDYBUS_CLUSTER_TOOLS=$${BENDYBUS_CLUSTER_TOOLS:-$(abspath $(CLUSTER))} \
	  $(PY) -m pytest -q --e2e tests/e2e $(ARGS)

.PHONY: format
format: install ## Format the code and sort its imports
	@ruff check --quiet --fix-only $(CODE)
	@ruff format --quiet $(CODE)

.PHONY: check
check: install check-lint check-types check-imports check-protos check-sync check-crds check-chart check-conformance check-tidy ## Lint, types, rooms, drift, tidiness: no network
	@echo "check: all fine"

.PHONY: check-lint check-types check-imports check-protos check-sync check-crds check-chart check-conformance check-tidy
check-lint: install
	@echo "check: ruff"
	@ruff check --quiet $(CODE)
	@ruff format --quiet --check $(CODE)
check-types: install
	@echo "check: mypy"
	@mypy --no-error-summary $(CODE)
check-imports: install
	@echo "check: import-linter"
	@lint-imports >$(VENV)/lint-imports.log 2>&1 || { cat $(VENV)/lint-imports.log; exit 1; }
check-protos: install
	@echo "check: stubs are those of the .proto files"
	@out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; $(call generate,$$out); \
	for file in $$(cd "$$out" && find . -name '*_pb2*'); do \
	  cmp -s "$$out/$$file" "protos/$$file" || \
	    { echo "protos/$${file#./} is not what the .proto files say: run make protos" >&2; exit 1; }; \
	done
check-sync: install
	@echo "check: the synchronous client is that of aio/"
	@$(PY) -m tools.generate_sync --check
check-crds: install
	@echo "check: CRDs and reference pages are those of the code"
	@$(PY) -m bendybus.crds --check
	@$(PY) -m docs.generate --check
check-chart: install
	@echo "check: the chart's generated parts"
	@$(PY) -m charts.generate --check
check-conformance: install
	@echo "check: every requirement has a test"
	@$(PY) -m tests.conformance --check
check-tidy: install
	@echo "check: tidy"
	@$(PY) -m pytest -q --no-header -p no:cacheprovider tests/test_tidy.py tests/test_packaging.py

define generate
(cd protos && $(CURDIR)/$(PY) -m grpc_tools.protoc -I . $(call PROTOC_OUT,$(1)) $$(find bendybus -name '*.proto' | sort))
endef

.PHONY: protos
protos: install ## Generate the stubs from protos/**/*.proto
	@$(call generate,.)
	@echo "protos: stubs written"

.PHONY: sync
sync: install ## Generate the synchronous client, client/bendybus/client/sync, from aio/
	@$(PY) -m tools.generate_sync

.PHONY: crds
crds: install ## Generate crds/generated/*.yaml from the models
	@$(PY) -m bendybus.crds

.PHONY: chart
chart: install crds ## Generate the parts of charts/bendybus that come from the CRDs and the values
	@$(PY) -m charts.generate

.PHONY: wheel
wheel: install ## Build dist/bendybus-*.whl, the same bytes from the same commit
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PY) -m hatchling build -t wheel >/dev/null 2>&1
	@cd dist && sha256sum *.whl

.PHONY: image
image: wheel ## Build the image localhost/bendybus:dev as build/image.tar, with Docker or without
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CLUSTER=$(CLUSTER) PYTHON=$(PYTHON) \
	  images/build $(IMAGE) build/image.tar
	@cd build && sha256sum image.tar && echo "image: $(IMAGE), $$(($$(stat -c %s image.tar) / 1000000)) MB"

.PHONY: spark-image
spark-image: wheel ## Build the image localhost/bendybus-spark:dev as build/spark-image.tar (1.2 GB)
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CLUSTER=$(CLUSTER) PYTHON=$(PYTHON) \
	  images/build $(SPARK_IMAGE) build/spark-image.tar spark
	@cd build && sha256sum spark-image.tar && \
	  echo "spark-image: $(SPARK_IMAGE), $$(($$(stat -c %s spark-image.tar) / 1000000)) MB"

.PHONY: kind
kind: image ## Start a kind cluster, load the image, install the chart (untried where kind is missing)
	@kind get clusters 2>/dev/null | grep -qx bendybus || kind create cluster --config charts/kind.yaml
	@kind load image-archive build/image.tar --name bendybus
	@helm upgrade --install bendybus charts/bendybus --namespace bendybus-system --create-namespace --wait

.PHONY: docs
docs: install ## Generate the reference pages that come from code
	@$(PY) -m docs.generate
	@$(PY) -m tests.conformance

.PHONY: bench
bench: install $(VENV)/.bench ## Measure, beside the bare pipeline and the peers that are installed
	@if command -v cc >/dev/null; then $(MAKE) --no-print-directory $(VENV)/.peers-installed; fi
	@$(PY) -m bench $(ARGS)

$(VENV)/.bench: requirements/bench.txt $(VENV)/.installed
	@$(PY) -m pip install --quiet --require-hashes -r requirements/bench.txt
	@touch $@

.PHONY: bench-spark
bench-spark: spark-install ## Measure Spark's source and sink beside our own client (5 minutes)
	@$(SPARK_VENV)/bin/python -m bench.spark $(ARGS)

.PHONY: soak
soak: install ## Load a bus steadily for 10 minutes: CPU, memory and files of every process stay flat
	@$(PY) -m bench.soak $(ARGS)

.PHONY: bench-kubernetes
bench-kubernetes: install ## Measure the operator and a bus on a cluster (10 minutes)
	@BENDYBUS_CLUSTER_TOOLS=$${BENDYBUS_CLUSTER_TOOLS:-$(abspath $(CLUSTER))} $(PY) -m bench.on_kubernetes

.PHONY: pins
pins: ## Choose new versions of every dependency (network; look at the diff)
	@$(PYTHON) -m venv $(VENV)-pins
	@$(VENV)-pins/bin/pip install --quiet --upgrade pip pip-tools
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/dev.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --extra dev --output-file - \
	  pyproject.toml requirements/dev.in | sed '/^#/d;/^bendybus @/d'; } > "$$out"; \
	cp "$$out" requirements/dev.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/bench.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --output-file - requirements/bench.in | sed '/^#/d'; } > "$$out"; \
	cp "$$out" requirements/bench.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/peers.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --constraint requirements/dev.txt --output-file - requirements/peers.in | \
	  sed '/^#/d'; } > "$$out"; \
	cp "$$out" requirements/peers.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/programs.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --output-file - requirements/programs.in | \
	  sed '/^#/d'; } > "$$out"; \
	cp "$$out" requirements/programs.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/rest.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --upgrade \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --output-file - requirements/rest.in | \
	  sed '/^#/d'; } > "$$out"; \
	cp "$$out" requirements/rest.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/image-sdk.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --constraint requirements/dev.txt --output-file - requirements/image-sdk.in | \
	  sed '/^#/d'; } > "$$out"; \
	cp "$$out" requirements/image-sdk.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/image.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --extra broker --extra operator --extra speed --constraint requirements/dev.txt \
	  --output-file - pyproject.toml | sed '/^#/d;/^bendybus @/d'; } > "$$out"; \
	cp "$$out" requirements/image.txt; rm "$$out"
	@out=$$(mktemp); { sed -n '/^#/p;/^[^#]/q' requirements/spark.txt; \
	$(VENV)-pins/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	  --no-annotate --no-header --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --extra spark --extra server --constraint requirements/dev.txt --output-file - \
	  pyproject.toml requirements/spark.in | sed '/^#/d;/^bendybus @/d'; } > "$$out"; \
	cp "$$out" requirements/spark.txt; rm "$$out"
	@$(PY) -m tools.select_pins

.PHONY: clean
clean: ## Remove what the other targets made
	@rm -rf $(VENV) $(VENV)-pins $(SPARK_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
