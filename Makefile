# Targets that people and CI call. `make help` is made of the ## comments.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install build dev-build unit test test-faults lint generate demo stack bench simulate audit sbom clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm > /dev/null || { echo 'npm is missing: install Node.js 20 or newer, which brings npm'; exit 1; }
	npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

install: node_modules/.package-lock.json ## install what package-lock.json names

build: install ## compile to dist/
	npm run --silent build

dev-build: build
	npm run --silent build:dev

unit: install ## tests that need no server
	jest --selectProjects unit --maxWorkers=100%

test: dev-build ## everything that is checked: style, types, generated files, every test on real servers
	@node build/dev/test.js

test-faults: dev-build ## every fault, those that take minutes too, and what came of each (20 minutes)
	@node build/dev/faults.js

lint: install ## style, types
	npm run --silent lint

stack: dev-build ## start Kafka, Postgres and a schema registry, print their addresses, keep them up
	@exec node build/dev/stack.js

demo: dev-build ## watch real events go through a real Kafka into verdict tables in a real Postgres
	@exec node build/dev/demo.js

bench: dev-build ## measure; BENCH=mode, see docs/performance.md
	@exec node build/dev/bench.js

# Seeds that were drawn, unless one is given: SEED=n, WITHOUT=what is left out of it.
SEEDS ?= 10000
simulate: install ## run the simulator; SEEDS=how many or SEED=which, see test/README.md
	@FIRST_SEED=$$(( RANDOM * 32768 + RANDOM )) SEEDS=$(SEEDS) $(if $(SEED),SEED=$(SEED)) $(if $(WITHOUT),WITHOUT=$(WITHOUT)) \
	  jest --selectProjects simulation --testPathPatterns simulation.test

mutation: dev-build ## change the rules one by one and see that a test notices (half an hour)
	@node build/dev/mutation.js

generate: dev-build ## write the generated files (with the tables: needs Postgres or starts one)
	@node build/dev/generate.js && node build/dev/generate.js tables

audit: ## fail on known vulnerabilities, high or worse, in what the product is made of (asks the registry)
	@npm audit --omit=dev --audit-level=high || { echo 'audit: not passed. Where npm says above that the endpoint returned an error, the registry gave no answer and nothing is known.'; exit 1; }

sbom: ## write build/sbom.cdx.json, a CycloneDX list of what the product is made of
	@mkdir -p build && npm sbom --sbom-format=cyclonedx --sbom-type=application --omit=dev --package-lock-only > build/sbom.cdx.json && echo build/sbom.cdx.json

clean: ## remove what was built
	rm -rf dist build coverage
