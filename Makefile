# Everything here works in a fresh clone with Python 3.11 or newer, make, and a package index that pip can reach.
# pip's own settings (PIP_INDEX_URL, PIP_CERT, pip.conf) are used as they are.

QUESTION := What do answers without a language model consist of, and when is a cited sentence unsupported?
VENV := .venv
BIN := $(VENV)/bin
# New lock or new metadata: install again. The stamp is the last thing written, so a broken installation is not mistaken for one.
READY := $(VENV)/.installed
KAFKA := build/kafka
DEBIAN_PYTHON := build/debian-python
# Tests wait for processes, sockets and timers: two processors are idle for a fifth of the time with five workers.
WORKERS ?= 7
# With more workers on two processors, replies are later than the limits of the product. One runs a Kafka of three brokers (2 GB of memory), the others need 1 GB each.
SERVICE_WORKERS ?= 4
# Folders without a test of `make test`: each worker would import them, and browsers and databases with them.
ELSEWHERE := --ignore=tests/services --ignore=tests/image --ignore=tests/model
FUZZ_SECONDS ?= 7200
MINUTES ?= 20
# A test beyond its limit ends its process, which is red and names the test. Others have the limit of pyproject.toml.
LONGER := -o faulthandler_timeout
FUZZ := tests/security tests/e2e/test_hostile_requests.py tests/unit/presentation/rest/http/test_openapi.py tests/unit/presentation/kafka/contract/test_requests.py

.DEFAULT_GOAL := help
.PHONY: help demo test suite coverage test-services services-suite test-debian-python test-python services-ready test-model client-table screenshots image-test release installers crash crash-postgres crash-reports fuzz soak kafka-jars kafka lint check-docs docs serve bench bench-quick worker-memory debian-docs quality strangers faq-quality manual-answers model-answers blind vendored sizes arena arena-quick arena-strangers lock clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# The answer alone is what later runs print.
FIRST_RUN := $(if $(wildcard $(READY)),,yes)

demo: $(READY)  ## ask a question about this project's own documents: no key, no network
	@$(if $(FIRST_RUN),echo "Asking: $(QUESTION)" >&2)
	@$(BIN)/llm-platform research "$(QUESTION)" --documents docs --offline

# Style and types run beside the tests. With more processors: make test WORKERS=12
test: $(READY)  ## everything that CI checks
	@$(MAKE) --no-print-directory --jobs=2 lint check-docs suite

suite: $(READY)
	$(BIN)/pytest -rf -n $(WORKERS) --dist=loadfile --no-loadscope-reorder $(ELSEWHERE)

coverage: $(READY)  ## the same tests with their line coverage, at least 92 % (takes twice the time)
	$(BIN)/pytest -n $(WORKERS) --dist=loadfile --no-loadscope-reorder $(ELSEWHERE) --cov --cov-report=term

test-services: services-ready  ## the same suites on real services: Kafka, Redis, PostgreSQL, nginx, a browser, Debian's Python (needs Java 17, Maven, npm)
	@$(MAKE) --no-print-directory --jobs=2 services-suite test-debian-python

services-suite: $(READY)
	$(BIN)/pytest -rf -m services $(LONGER)=1200 -n $(SERVICE_WORKERS) --dist=loadfile --no-loadscope-reorder tests/services

# What the tests with real services need; most of it is waiting for downloads.
services-ready: $(READY) kafka-jars $(DEBIAN_PYTHON)/.installed
	$(BIN)/python scripts/vendored.py axe-core
	PYTHON=$(BIN)/python bash scripts/client_environments.sh
	$(BIN)/python -m tests.services.test_mcp_conformance

# An address of any service with OpenAI's protocol: make test-model LLM_TEST_BASE_URL=http://127.0.0.1:8080/v1 LLM_TEST_MODEL=qwen3
test-model: export LLM_TEST_BASE_URL := $(LLM_TEST_BASE_URL)
test-model: export LLM_TEST_MODEL := $(LLM_TEST_MODEL)
test-model: $(READY)  ## laws that hold whatever a real model writes (LLM_TEST_BASE_URL, LLM_TEST_MODEL; on a CPU half an hour)
	$(BIN)/pytest -m model $(LONGER)=3600 -p no:randomly -v tests/model

client-table: $(READY)  ## try the clients of other systems and write the table of what passed into the docs (installs them: 4 GB)
	$(BIN)/pytest -m services $(LONGER)=1200 tests/services/test_clients.py
	$(BIN)/python scripts/client_table.py

screenshots: $(READY)  ## pictures of the page for README and docs (needs chromium-headless-shell and the font Inter)
	@bash scripts/service_tools.sh
	$(BIN)/python -m tests.services.screenshots

image-test: $(READY)  ## carry out the Dockerfile in a clean Debian and start the result (as root on Linux, about five minutes)
	$(BIN)/python scripts/clean_root.py build/image
	$(BIN)/pytest -m image $(LONGER)=1200 tests/image

# Debian's own Python is an early patch level of its version. Code that hangs or differs there is found here.
test-debian-python: $(DEBIAN_PYTHON)/.installed  ## the domain, the readers of models' answers and the citation check on /usr/bin/python3
	timeout 900 $(DEBIAN_PYTHON)/bin/pytest -q -n 0 tests/unit/domain tests/unit/application/research/model_output tests/unit/presentation/kafka/contract

# Each interpreter has an environment of its own, named after the interpreter: make test-python PYTHON=python3.13
test-python: OTHER_PYTHON = build/python/$(subst /,-,$(patsubst /%,%,$(PYTHON)))
test-python:  ## the unit tests and contracts on another interpreter (PYTHON=python3.13 or PYTHON=/path/to/python)
	@test -n "$(PYTHON)" || { echo "Name the interpreter: make test-python PYTHON=python3.13" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is no Python 3.11 or newer" >&2; exit 2; }
	PYTHON=$(PYTHON) bash scripts/bootstrap.sh $(OTHER_PYTHON)
	$(OTHER_PYTHON)/bin/pytest -rf -n $(WORKERS) --dist=loadfile --no-loadscope-reorder tests/unit tests/contracts

release: $(READY)  ## build a source archive and a wheel in dist/ and try them; nothing is uploaded (REHEARSAL=1: at any time)
	$(BIN)/pytest -m release -n 2 --dist=loadfile tests/packaging
	$(BIN)/python scripts/release.py $(if $(REHEARSAL),--rehearsal)

installers: $(READY)  ## install a wheel with uvx, uv and pipx and ask a question (PYTHONS="3.12 /path/to/python": other interpreters)
	$(BIN)/python scripts/try_installers.py $(PYTHONS)

fuzz: $(READY)  ## hostile addresses, requests, messages and answers, other ones in each run (FUZZ_SECONDS at most)
	$(if $(wildcard /usr/lib/postgresql),$(BIN)/pytest -m services $(LONGER)=$(FUZZ_SECONDS) --hypothesis-profile=thorough tests/services/test_hostile_ids.py)
	timeout --foreground --signal=INT --kill-after=60 $(FUZZ_SECONDS) $(BIN)/pytest $(LONGER)=$(FUZZ_SECONDS) -n $(WORKERS) --hypothesis-profile=thorough $(FUZZ)

# Without Java: make crash BROKER=mock
soak: $(READY)  ## mixed load with failing upstreams for MINUTES=20: no growth, every request answered, few errors
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

crash: $(READY) $(if $(filter mock,$(BROKER)),,kafka-jars)  ## kill workers 200 times under 10,000 requests, and one of three brokers 12 times, then look whether anything was lost (a quarter of an hour)
	$(BIN)/python -m tests.crash.run --broker $(or $(BROKER),cluster) --restarts $(or $(RESTARTS),12)

crash-postgres: $(READY) $(if $(filter mock,$(BROKER)),,kafka-jars)  ## the same with one broker and workers that share PostgreSQL; both are taken away 4 times
	@bash scripts/service_tools.sh
	$(BIN)/python -m tests.crash.run --broker $(or $(BROKER),kafka) --outcomes postgres --restarts $(or $(RESTARTS),8)

crash-reports: $(READY)  ## kill reports KILLS=200 times after each answer of a scripted upstream and at any moment, then look whether anything was paid for twice
	$(BIN)/python -m tests.crash.report_kills --kills $(or $(KILLS),200)

kafka-jars: $(KAFKA)/classes.jsa  ## fetch Kafka's jars into build/kafka, through Maven

kafka: $(READY) kafka-jars  ## a Kafka on 127.0.0.1:9092 to try things on, until Ctrl-C; nothing is kept
	$(BIN)/python -m tests.kafka.real_broker $(foreach topic,search_request search_result answer_request answer_result failed,--topic rag_$(topic)=12)

lint: $(READY)  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-docs: $(READY)  ## generated files are up to date
	$(BIN)/python scripts/generated_files.py --check
	$(BIN)/python scripts/client_table.py --check

docs: $(READY)  ## write the generated files: .env.example, docs/reference and the stub of the public names
	$(BIN)/python scripts/generated_files.py

serve: $(READY)  ## the server on http://127.0.0.1:8000, until Ctrl-C
	$(BIN)/llm-platform serve

bench: $(READY)  ## our own overhead against a floor, on fake upstreams and brokers (about a quarter of an hour)
	$(BIN)/python benchmarks/run.py

bench-quick: $(READY)  ## CPU and wall of answers with pages over HTTP, against a floor (under three minutes, on an idle machine)
	$(BIN)/python -m benchmarks.quick

worker-memory: $(READY) kafka-jars  ## memory of one worker over MESSAGES (a million) on a real broker
	$(BIN)/python -m benchmarks.kafka_memory --messages $(or $(MESSAGES),1000000)

debian-docs:  ## fetch documentation of Debian into build/debian-docs, to research without a key (needs apt)
	bash scripts/debian_docs.sh build/debian-docs

quality: $(READY)  ## how well citations are checked, on labelled pairs
	$(BIN)/python scripts/quality.py
	$(BIN)/python scripts/judge_quality.py
	$(BIN)/python scripts/retrieval_quality.py

strangers: $(READY)  ## the same and more on public sets of others in STRANGERS=DIR (PART=open or held, SETS="cast clapnq")
	$(BIN)/python scripts/strangers.py "$(STRANGERS)" $(or $(PART),open) $(SETS)

faq-quality: $(READY)  ## how well answers to FAQs are found in documentation of Debian (fetches it: needs apt)
	packages="$$($(BIN)/python scripts/faq_quality.py --packages)" && bash scripts/debian_docs.sh build/faq-docs $$packages
	$(BIN)/python scripts/faq_quality.py build/faq-docs

manual-answers: $(READY)  ## answers without a model to 60 questions about manuals of Debian, to be rated (needs apt)
	packages="$$($(BIN)/python scripts/manual_answers.py --packages)" && bash scripts/debian_docs.sh build/manuals $$packages
	$(BIN)/python scripts/manual_answers.py build/manuals > build/manuals/answers.txt
	$(BIN)/python scripts/manual_answers.py build/manuals --held-back > build/manuals/answers-held-back.txt

# MODELS: NAME=URL of each model besides quotes; LIMIT: only the first questions.
model-answers: $(READY)  ## answers of MODELS ("NAME=URL …") to 40 questions about manuals of Debian, by a key of facts (needs apt)
	packages="$$($(BIN)/python scripts/model_answers.py --packages)" && bash scripts/debian_docs.sh build/model-manuals $$packages
	$(BIN)/python scripts/model_answers.py build/model-manuals $(addprefix --model ,$(MODELS)) $(if $(LIMIT),--limit $(LIMIT))

blind: $(READY)  ## 20 questions with two answers each, to be judged blind; SHEET=FILE scores a filled-in one
	$(BIN)/python scripts/blind.py $(if $(SHEET),score $(SHEET),write $(BLIND))

# ARENA_MODEL_URL, ARENA_MODEL and more: arena/README.md
arena: $(READY)  ## this project and others answer 60 questions over one frozen web; writes docs/reference/arena.md (hours; resumable)
	$(BIN)/python -m arena.run --page docs/reference/arena.md

arena-quick: $(READY)  ## the same with ten questions and two players
	$(BIN)/python -m arena.run --quick

arena-strangers: $(READY)  ## which players of the arena tried to reach which other servers
	$(BIN)/python -m arena.run --strangers

vendored: $(READY)  ## fetch the scripts behind /docs and the page, of the pinned versions and hashes (needs npm)
	$(BIN)/python scripts/vendored.py

sizes: $(READY)  ## counts of the code beside those of the last release; they fail nothing
	$(BIN)/python -m scripts.sizes

# The image's locks are parts of requirements.lock: what runs, and what builds a wheel.
lock: UV = $(BIN)/python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
lock: $(READY)  ## resolve the dependencies again, with hashes and without the address of an index
	$(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv
	$(UV) --all-extras --group dev pyproject.toml -o requirements.lock
	$(UV) --no-annotate --constraint requirements.lock --all-extras pyproject.toml -o deploy/image/runtime.lock
	echo hatchling | $(UV) --no-annotate --constraint requirements.lock - -o deploy/image/build.lock

clean:  ## remove the environment and everything that tools leave behind
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# Emptied first: two versions of a jar side by side are a Kafka of neither.
$(KAFKA)/.ready: tests/services/pom.xml scripts/service_tools.sh
	@bash scripts/service_tools.sh
	@rm -rf $(KAFKA) && mkdir -p $(KAFKA)
	mvn --batch-mode --quiet --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$(KAFKA)
	@touch $@

# The classes that a first broker has loaded: later ones start with 60 % of its CPU time. A Java that cannot write them goes without.
$(KAFKA)/classes.jsa: $(KAFKA)/.ready | $(READY)
	-$(BIN)/python -m tests.kafka.real_broker --archive

# After Kafka's jars: both install packages of Debian, one at a time.
$(DEBIAN_PYTHON)/.installed: requirements.lock pyproject.toml scripts/bootstrap.sh | $(KAFKA)/.ready
	@bash scripts/service_tools.sh
	PYTHON=$(wildcard /usr/bin/python3) bash scripts/bootstrap.sh $(DEBIAN_PYTHON)
	@touch $@

$(READY): requirements.lock pyproject.toml scripts/bootstrap.sh
	@bash scripts/bootstrap.sh $(VENV)
	@touch $@
