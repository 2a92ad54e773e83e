# Every target sets up .venv by itself, from python3 (3.11+) alone; uv is used when present.
SHELL := /bin/bash
PY := .venv/bin/python
STAMP := .venv/.installed
RAY := .venv/.ray-installed
# More than cores: most of a test is waiting for processes.
WORKERS ?= 6
# Empty: compiled files are kept, also where the environment forbids it. Each worker of the tests, and
# each process that they start, would compile all of it again.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format generate bench faults faults-fleet test-agents test-fleet

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

setup: $(STAMP)  ## make .venv

$(STAMP): pyproject.toml scripts/setup.sh
	@scripts/setup.sh
	@touch $@

$(RAY): $(STAMP)
	@scripts/setup.sh ray
	@touch $@

demo: $(STAMP)  ## show what Holdfast does, in a few seconds
	@scripts/demo.sh

test: $(STAMP)  ## run the tests
	@$(PYTEST) -n $(WORKERS) $(ARGS)

check: $(STAMP)  ## formatting, lint, types, import rules
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-logo

format: $(STAMP)  ## format and fix what can be fixed
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

generate: $(STAMP)  ## write what is made from declarations: docs/cli.md, docs/mcp.md, the table of agents
	@$(PY) scripts/generate_recognition.py
	@$(PY) scripts/generate_cli_docs.py
	@$(PY) scripts/generate_mcp_docs.py

bench: $(STAMP)  ## measure what Holdfast costs
	@$(PY) -m bench $(ARGS)

faults: $(STAMP)  ## more than 300 faults and a storm, judged by what really happened
	@$(PY) -m bench.faults $(ARGS)

faults-fleet: $(RAY)  ## more than 100 faults of ssh, Slurm, Ray and PostgreSQL: needs root
	@$(PY) -m bench.faults_fleet $(ARGS)

test-agents: $(STAMP)  ## drive the real agent programs, without network
	@$(PYTEST) -n $(WORKERS) -m agents $(ARGS)

test-fleet: $(RAY)  ## Ray, and nodes that are cut off: needs root
	@$(PYTEST) -m fleet $(ARGS) tests/fleet
