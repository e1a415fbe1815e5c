# make demo      see a durable log written, killed, recovered and queried; needs Python >= 3.11 and a C compiler
# make pipeline  see the same data go through logs on Spark while its driver is killed
# make test      every test
# make test-oldest-spark   on PySpark 4.0, the tests of Spark that a version can change; make long has the rest of these
# make checks    lint, types, crash images, sanitizers, coverage, fuzz targets, source archive: side by side
# make long      the long runs of what CI does a part of; takes hours
# make crash     power cuts: at least CRASH_IMAGES crash images of the C core, CRASH_SCRIPTS scripts of whole logs
# make soak      SOAK_SECONDS of all at once in log directories that live on, with kills: nothing lost, nothing that grows
# make mutants   small changes of recovery, truncation and indexes, which tests must notice; takes hours
# make bench     every benchmark, kept for `asv publish`, and a table; by estimate 1.5 hours, and four to seven more with Spark,
#                which BENCH="--bench '^(?!spark)'" leaves out; BENCH="--bench Decode" chooses some
# make price     what changes cost: CPU time of every benchmark's own side over that of the commit BASE, build by build
# make install   what both begin with: .venv with segstore, all extras and the development tools
# Another Python: make PYTHON=python3.13 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CRASH_IMAGES ?= 10000000
CRASH_SCRIPTS ?= 100000
SOAK_SECONDS ?= 3600
JOBS := $(shell nproc 2>/dev/null || echo 2)
# Long tests stand together: who is done takes some over.
IN_JOBS := -n $(JOBS) --dist worksteal
# Beside other stages it takes its share of their jobs, alone it has them all.
C_TESTS = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) -C tests/c
OLDEST := build/oldest-spark
ARCHIVE := build/archive
# Python compiles a module at its first import: most of the 12,000 installed ones are never imported.
PIP_OPTIONS := --no-compile
# Left out is what no version of Spark changes; and what takes long, which the long run does.
OLDEST_IN_THE_LONG_RUN := connector_batch connector_sink jobs mapped_read metadata_reader remote_source session sink_rows sink_topics \
    topic_made_again
OLDEST_LEAVES_OUT := $(OLDEST_IN_THE_LONG_RUN) cluster commit_log named_commit options ranges sink_commit sink_faults where_clause
THREAD_TESTS := $(basename $(notdir $(shell grep -l pthread_create tests/c/test_*.c)))
SOURCES := $(shell find csrc segstore -name '*.[ch]' -o -name '*.pyx' -o -name '*.px[di]')

# What `make checks` runs. The first needs an installation: that begins at once, and the C compiler beside it.
STAGES := coverage sanitize archive crash-c lint types fuzz oldest-spark

.PHONY: install demo pipeline checks test test-c crash-c test-python oldest-spark test-oldest-spark long crash soak mutants lint format types sanitize coverage fuzz \
    archive bench price clean $(STAGES:%=stage-%)
.DEFAULT_GOAL := install

install: $(VENV)/built

demo: install
	$(BIN)/segstore demo

pipeline: install
	$(BIN)/segstore pipeline

# Each stage prints what it says when it ends, in one piece, and how long it took.
checks:
	+@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS)) --output-sync=recurse $(STAGES:%=stage-%)

$(STAGES:%=stage-%): stage-%:
	+@begin=$$(date +%s); echo "=== $*"; $(MAKE) --no-print-directory $* && echo "=== $*: $$(($$(date +%s) - begin)) s"

stage-coverage stage-archive stage-lint stage-types stage-oldest-spark: | install
stage-fuzz: stage-sanitize # of the same objects

test: test-c test-python

test-c: crash-c
	+$(C_TESTS) check

# Apart: `make coverage` and `make sanitize` run the C tests too.
crash-c:
	+$(C_TESTS) crash

test-python: install
	$(BIN)/pytest $(IN_JOBS) $(LEFT_OUT) tests

# What CI does a part of: hours, once before a release.
long: crash oldest-spark
	$(BIN)/pytest $(IN_JOBS) --slow --sequences 10000 --ignore=tests/crash tests
	$(BIN)/pytest $(IN_JOBS) --kills 20000 tests/crash -k killed
	$(OLDEST)/bin/pytest $(IN_JOBS) $(OLDEST_IN_THE_LONG_RUN:%=tests/spark/test_%.py)

crash: install
	+$(C_TESTS) crash CRASH_IMAGES=$(CRASH_IMAGES) CRASH_SEEDS=6
	$(BIN)/pytest $(IN_JOBS) --slow tests/crash --crash-scripts $(CRASH_SCRIPTS)

soak: install
	$(BIN)/python -m tests.soak.soak --seconds $(SOAK_SECONDS) $(SOAK)

mutants: install
	$(BIN)/python -m tests.mutation $(MUTANTS)

oldest-spark: $(OLDEST)/installed

test-oldest-spark: install oldest-spark
	$(OLDEST)/bin/pytest $(IN_JOBS) tests/spark $(OLDEST_LEAVES_OUT:%=--ignore=tests/spark/test_%.py)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PATH="$(abspath $(BIN)):$$PATH" cython-lint segstore
	find csrc tests/c -name '*.[ch]' -exec $(BIN)/clang-format --dry-run --Werror {} +
	$(BIN)/cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability \
	    --inline-suppr -j $(JOBS) -Icsrc csrc

format: install
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	find csrc tests/c -name '*.[ch]' -exec $(BIN)/clang-format -i {} +

types: install
	$(BIN)/mypy
	$(BIN)/stubtest segstore._core --ignore-unused-allowlist \
	    --allowlist tests/tidy/stubtest_allowlist.txt

sanitize:
	+$(C_TESTS) check SANITIZE=address,undefined COVERAGE=1
	+$(C_TESTS) crash SANITIZE=address,undefined COVERAGE=1 CRASH_IMAGES=20000 CRASH_LENGTH=1
	+$(C_TESTS) check SANITIZE=thread TESTS="$(THREAD_TESTS)"
	+$(C_TESTS) fuzz-replay

coverage: install
	+$(C_TESTS) coverage GCOVR=$(abspath $(BIN))/gcovr

fuzz:
	+$(C_TESTS) fuzz-explore

# The source archive has all that a wheel is made of, and the installed command needs no checkout. -O0 compiles in a quarter of the time.
archive: install
	rm -rf $(ARCHIVE)
	$(PYTHON) -m venv $(ARCHIVE)/venv
	$(BIN)/python setup.py --quiet sdist --dist-dir $(ARCHIVE)
	CFLAGS=-O0 $(ARCHIVE)/venv/bin/pip install $(PIP_OPTIONS) --quiet $(ARCHIVE)/segstore-*.tar.gz
	cd / && $(abspath $(ARCHIVE))/venv/bin/segstore --help >/dev/null
	cd / && $(abspath $(ARCHIVE))/venv/bin/python -c 'import segstore, segstore._core'

bench: install
	cd asv_benchmarks && export PATH="$(abspath $(BIN)):$$PATH" ASV_PYTHONPATH="$(CURDIR)" && asv machine --yes \
	    && asv run --python=same --set-commit-hash "$$(git rev-parse HEAD)" --show-stderr $(BENCH) \
	    && asv show --details HEAD

price: install
	cd asv_benchmarks && ../$(BIN)/python -m compare_builds $(PRICE) $(BASE)

clean:
	rm -rf build dist *.egg-info $(VENV)/built
	find segstore -name '*.so' -delete

# The first build happens in the installation; later ones compile what changed.
$(VENV)/built: $(VENV)/installed $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

$(VENV)/installed: $(BIN)/pip pyproject.toml setup.py
	$(BIN)/pip install $(PIP_OPTIONS) --group build
	$(BIN)/pip install $(PIP_OPTIONS) --no-build-isolation --editable '.[all]' --group dev
	@touch $@

# Of the same Python, at most 3.13: tests and Spark's workers take segstore from the checkout.
$(OLDEST)/installed: pyproject.toml | $(BIN)/pip
	$(BIN)/python -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --upgrade 'pip>=25.1'
	$(OLDEST)/bin/pip install $(PIP_OPTIONS) --group oldest-spark
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "segstore needs Python 3.11 or newer: name one, e.g. 'make PYTHON=python3.13 install'." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	    { echo "$(PYTHON) cannot make virtual environments: install its venv, e.g. 'apt-get install python3-venv'." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --upgrade 'pip>=25.1'
