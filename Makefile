# Each target sets up what it needs first; on a machine that has it, that takes a blink.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick lint bench

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1	\2/' | expand -t 20

setup: ## system packages (missing ones only) and .venv
	@scripts/setup

demo: setup ## real work by a scripted model: no key, no network
	@.venv/bin/drawbar demo

test: setup ## every test: the quick ones, then the slow ones
	@.venv/bin/python scripts/tests.py quick slow

test-quick: setup ## the tests that finish within minutes
	@.venv/bin/python scripts/tests.py quick

lint: setup ## style, types, layers, module sizes, documentation
	@.venv/bin/python scripts/lint.py

bench: setup ## the figures that PRF-1 … PRF-9 hold us to
	@.venv/bin/python benchmarks/run.py
