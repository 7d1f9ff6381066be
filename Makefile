# Every target does its own set-up: `make demo` and `make test` work on a fresh clone.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
KERNELS := $(wildcard $(addprefix src/penstock/protocol/kernels/*., pyx pxd h) $(addprefix src/penstock/connect/cdc/postgres/kernels/*., pyx pxd))

# Tests start hundreds of Python processes: where an environment forbids it to keep what it has compiled (as
# images of containers do), each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-long lint types compiled-tests tests docs bench bench-kafka bench-cluster bench-spark bench-views bench-sql bench-changes fuzz soak soak-streams soak-simulation test-cluster librdkafka go-clients connect-tests python-clients kafkajs ksqldb-tests clean

help:
	@echo "make demo     real flights through a streams application, the result checked; DEMO=--chaos kills it meanwhile"
	@echo "make test     lint, format, types and all tests"
	@echo "make test-long  what takes too long for make test: up to an hour"
	@echo "make install  only prepare $(VENV)"
	@echo "make docs     the docs' generated parts, and a site of guides and reference in build/docs"
	@echo "make bench    measure a node: throughput, latency, cost"
	@echo "make bench-kafka  the same rows beside Apache Kafka (docs/benchmarks.md); BENCH='--rows consume --rounds 1'"
	@echo "make bench-cluster  three nodes beside three of Apache Kafka: throughput, failover, 1,000 partitions"
	@echo "make bench-spark  Spark through Penstock's source and sink beside Spark's own Kafka connector (docs/benchmarks.md)"
	@echo "make bench-views  lookups in a running application: latency and staleness (docs/streams-queries.md)"
	@echo "make bench-sql    a SQL server: backlogs, 20 statements at once, push and pull queries (docs/benchmarks.md)"
	@echo "make bench-changes  changes of PostgreSQL beside Debezium: changes per CPU second"
	@echo "make fuzz     hostile input, for minutes instead of seconds"
	@echo "make soak     random histories, kills and the model of a node, for an hour and more (SOAK_SECONDS)"
	@echo "make soak-streams  kills under exactly-once queries and applications, every operator on Spark, clusters"
	@echo "make soak-simulation  clusters made up from SIMULATION_SEEDS (0-19999): hours (docs/simulator.md)"
	@echo "make test-cluster  real nodes: faults, kills under verifiable clients, docs/operations.md step by step"
	@echo "make librdkafka  librdkafka's own integration tests against one node and three; NODES=3 for one of them"
	@echo "make ksqldb-tests  ksqlDB's own tests of queries, from a copy of its repository (KSQLDB_TESTS)"
	@echo "make python-clients, make kafkajs  their own tests on secured nodes, from copies of their repositories"
	@echo "make connect-tests  the integration tests of Kafka Connect and MirrorMaker on our nodes: hours"
	@echo "make go-clients  franz-go's own tests on three nodes, Sarama's on five that they stop and cut off"

install: $(INSTALLED)

# Spark comes as source, half a gigabyte of jars that pip packs and unpacks again: packed without compression.
$(INSTALLED): pyproject.toml setup.py src/penstock/protocol/software.py $(KERNELS)
	@echo "== preparing $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || \
		{ echo "Penstock needs Python 3.11 to 3.14; found $$($(PYTHON) --version). Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "Python cannot make virtual environments here. On Debian: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@echo "== installing Penstock, Spark and the test clients (a few minutes the first time)"
	@printf '[bdist_wheel]\ncompression = stored\n' > $(VENV)/build.cfg
	@DIST_EXTRA_CONFIG="$(CURDIR)/$(VENV)/build.cfg" $(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
	@echo "== ready: $(BIN)/penstock"

DEMO ?=

demo: $(INSTALLED)
	@$(BIN)/penstock demo $(DEMO)

# Types are checked while the tests are compiled and collected, once for all workers: either alone leaves a core idle.
test: lint
	@$(MAKE) --no-print-directory --jobs 2 types compiled-tests
	@$(MAKE) --no-print-directory tests
	@echo "== all passed: lint, format, types, tests"

lint: $(INSTALLED)
	@echo "== lint and format"
	@$(BIN)/ruff check --no-cache src tests docs benchmarks examples setup.py
	@$(BIN)/ruff format --check --quiet src tests docs benchmarks examples setup.py

types: $(INSTALLED)
	@echo "== types"
	@$(BIN)/mypy

compiled-tests: $(INSTALLED)
	@$(BIN)/python -m pytest --collect-only -qq >$(VENV)/collected 2>&1 || { cat $(VENV)/collected; exit 1; }

# A test that fails runs once more, alone, after all others: tests/reruns.py. RERUN=0 turns that off.
RERUN ?= 1

tests: $(INSTALLED)
	@echo "== tests"
	@RERUN=$(RERUN) $(BIN)/python -m pytest -n 3 -q

test-long: $(DOCS_INSTALLED)
	@echo "== tests that the gate leaves out, and more repetitions of some that it has"
	@PENSTOCK_LONG=1 RERUN=$(RERUN) $(BIN)/python -m pytest -n 2 -q -m "long or longer or hypothesis"

# Only the site needs Sphinx, and the other targets need not wait for it.
$(DOCS_INSTALLED): $(INSTALLED)
	@echo "== installing Sphinx"
	@$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(DOCS_INSTALLED)
	@$(BIN)/python docs/generate.py
	@$(BIN)/python -m sphinx --builder html --fresh-env --fail-on-warning --keep-going --quiet \
		--doctree-dir build/doctrees docs build/docs
	@echo "== the site: build/docs/index.html"

NODES ?= 1 3
librdkafka: $(INSTALLED)
	@for nodes in $(NODES); do $(BIN)/python tests/clients/librdkafka_suite.py --nodes $$nodes || exit 1; done

KSQLDB_TESTS ?= ksql/ksqldb-functional-tests/src/test/resources/query-validation-tests

ksqldb-tests: $(INSTALLED)
	@$(BIN)/python tests/sql/ksqldb_suite.py $(KSQLDB_TESTS)

go-clients: $(INSTALLED)
	@$(BIN)/python tests/clients/franz_go_suite.py
	@$(BIN)/python tests/clients/franz_go_suite.py --secured
	@$(BIN)/python tests/clients/sarama_suite.py

connect-tests: $(INSTALLED)
	@$(BIN)/python tests/connect/suite/connect_suite.py $(CONNECT_TESTS)

KAFKA_PYTHON ?= kafka-python
AIOKAFKA ?= aiokafka

python-clients: $(INSTALLED)
	@$(BIN)/python tests/clients/python_clients_suite.py kafka-python --source $(KAFKA_PYTHON)
	@$(BIN)/python tests/clients/python_clients_suite.py aiokafka --source $(AIOKAFKA)

KAFKAJS ?= kafkajs

kafkajs: $(INSTALLED)
	@$(BIN)/python tests/clients/kafkajs_suite.py --source $(KAFKAJS)
	@$(BIN)/python tests/clients/kafkajs_suite.py --source $(KAFKAJS) --oauthbearer

bench: $(INSTALLED)
	@$(BIN)/penstock bench

BENCH ?=

bench-kafka: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m side_by_side $(BENCH)

bench-cluster: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m side_by_side.three_node_page $(BENCH)

bench-spark: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m spark_side_by_side $(BENCH)

bench-views: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m views $(BENCH)

bench-changes: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m change_capture $(BENCH)

bench-sql: $(INSTALLED)
	@PYTHONPATH=benchmarks $(BIN)/python -m continuous_sql $(or $(BENCH),--page docs/benchmarks.md)

FUZZ_SECONDS ?= 300

fuzz: $(INSTALLED)
	@echo "== every decoder, then a live node for $(FUZZ_SECONDS) s"
	@PENSTOCK_FUZZ_EXAMPLES=300 $(BIN)/python -m pytest --timeout 0 -n 2 -q tests/protocol/test_messages_fuzz.py
	@echo "== every property, with thirty times the examples"
	@PENSTOCK_EXAMPLES=600 $(BIN)/python -m pytest --timeout 0 -n 2 -q -m hypothesis
	@PENSTOCK_FUZZ_FRAMES=20000 $(BIN)/python -m pytest --timeout 0 -q -s tests/broker/test_connection.py -k random_frames
	@PENSTOCK_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/python -m pytest --timeout 0 -q -s tests/cluster/test_hostile_clients.py

SOAK_SECONDS ?= 3600
SOAK := PENSTOCK_LONG=1 $(BIN)/python -m pytest --timeout 0 -q -s

soak: $(INSTALLED)
	@echo "== 10,000 histories on a file system that crashes, and of compaction"
	@PENSTOCK_HISTORIES=10000 $(SOAK) tests/storage/test_crash_histories.py tests/storage/compaction/test_compaction_histories.py
	@echo "== kills in the middle of transactions, of compaction, of concurrent clients"
	@PENSTOCK_TRANSACTION_KILLS=50 $(SOAK) tests/cluster/test_kill_transactions.py
	@PENSTOCK_KILLS=200 $(SOAK) tests/cluster/test_kill.py tests/cluster/test_kill_admin.py tests/cluster/test_kill_compaction.py
	@PENSTOCK_KILLS=200 $(SOAK) tests/model/test_client_histories.py -k kills
	@echo "== a node against its model for $(SOAK_SECONDS) s"
	@PENSTOCK_SOAK_SECONDS=$(SOAK_SECONDS) $(SOAK) tests/model/test_node_model.py -k model_says

SINK_KILLS ?= 200
SQL_KILLS ?= 20

soak-streams: $(INSTALLED)
	@echo "== $(SINK_KILLS) kills of executor, driver and broker under an exactly-once query"
	@PENSTOCK_SINK_KILLS=$(SINK_KILLS) $(SOAK) tests/cluster/test_kill_exactly_once.py
	@echo "== applications killed in the middle of batches, and every operator on Spark"
	@PENSTOCK_STREAMS_SPARK=all PENSTOCK_STREAMS_KILLS=10 $(SOAK) tests/pipeline/streams/test_streams_spark.py tests/pipeline/test_sql_spark.py tests/pipeline/streams/test_streams_kill.py
	@echo "== a year of flights in SQL"
	@PENSTOCK_STREAMS_SPARK=all $(SOAK) tests/pipeline/test_sql_flights.py
	@echo "== $(SQL_KILLS) kills of a SQL server in the middle of ten queries, and one that takes its checkpoint, too"
	@PENSTOCK_SQL_KILLS=$(SQL_KILLS) $(SOAK) tests/cluster/test_sql_kills.py
	@echo "== a standalone cluster, and the commands for YARN and Kubernetes"
	@PENSTOCK_CLUSTERS=1 $(SOAK) tests/bench/test_spark_side_by_side.py tests/cluster/test_spark_standalone.py tests/cluster/test_deployment.py tests/cluster/test_spark_versions.py

SIMULATION_SEEDS ?= 0-19999

soak-simulation: $(INSTALLED)
	@echo "== 5,000 seeds of a quorum alone"
	@PENSTOCK_QUORUM_SEEDS=5000 $(SOAK) tests/consensus/test_simulated_quorum.py
	@echo "== bugs that are planted and have to be found, then seeds $(SIMULATION_SEEDS)"
	@PENSTOCK_PLANTED_BUGS=1 $(SOAK) tests/simulation/test_planted_bugs.py
	@$(BIN)/python -m penstock.testing.simulator --seeds $(SIMULATION_SEEDS) --jobs $$(nproc)

CLUSTER_FAULTS ?= 4
VERIFIABLE_KILLS ?= 20

test-cluster: $(INSTALLED)
	@echo "== the pages of operations, and the same tests on Apache Kafka"
	@PENSTOCK_OPERATIONS_PAGE=1 PENSTOCK_KAFKA_CLUSTERS=1 $(SOAK) tests/cluster/test_operations_page.py tests/cluster/test_kafka_tools.py tests/cluster/test_controller_alone.py tests/cli/test_cluster_commands.py
	@echo "== clusters of Apache Kafka and Penstock nodes together"
	@PENSTOCK_KAFKA_CLUSTERS=1 $(SOAK) tests/cluster/test_mixed_quorum.py tests/cluster/test_mixed_replication.py tests/registry/api/test_registry_kafka.py
	@echo "== failovers, brokers added, groups whose coordinator dies, TLS and ACLs for a running cluster"
	@PENSTOCK_CLUSTER_FAULTS=$(CLUSTER_FAULTS) $(SOAK) tests/cluster/test_failover.py tests/cluster/test_scale_out.py tests/cluster/test_group_failover.py tests/cluster/test_secured_while_running.py
	@echo "== faults under load: nodes that die or hang, networks, disks, clocks"
	@PENSTOCK_CLUSTER_FAULTS=$(CLUSTER_FAULTS) $(SOAK) tests/cluster/test_cluster_faults.py tests/cluster/test_registry_faults.py tests/cluster/test_network_faults.py tests/cluster/test_disk_faults.py tests/cluster/test_clock_jumps.py
	@echo "== $(VERIFIABLE_KILLS) kills under kafka-verifiable-producer and -consumer"
	@PENSTOCK_VERIFIABLE_KILLS=$(VERIFIABLE_KILLS) $(SOAK) tests/cluster/test_verifiable_kills.py

clean:
	rm -rf $(VENV) build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis penstock-demo
