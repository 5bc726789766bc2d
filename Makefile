# Targets that people and CI call. `make help` is made of the ## comments.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

# Each layer of test/README.md that is a Jest project has a target. `unit` and `chart` have their own.
LAYERS := repository fuzz simulation dev ledger stores mutants model stream webhook faults monitoring commands

# Each start of Node compiles less: half of the CPU of a short command is its start.
export NODE_COMPILE_CACHE := $(CURDIR)/build/cache/compiled

.DEFAULT_GOAL := help
.PHONY: help watch unit lint format generate build dev-build install stack demo example-wallet $(LAYERS) test test-long test-faults simulate soak bench mutation \
  chart chart-tools cluster-test container-test manifests image audit sbom package clean

help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# ONLY=words picks test files by their path, NAME=words picks tests by their title.
SELECTED = $(if $(NAME),-t '$(NAME)') $(if $(ONLY),-- $(ONLY))
# Some unit tests wait for a deadline. On two cores, more processes use the time.
UNIT_WORKERS ?= 5

node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm > /dev/null || { echo 'npm is missing: install Node.js 22.15 or newer, which brings npm'; exit 1; }
	@echo 'installing the packages of package-lock.json (once; a minute or two)'
	@npm ci --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
	@touch $@

##@ Every day
# The compiler outlives a first SIGTERM in watch mode.
watch: install ## on each save, check types and run the unit tests of changed files; Ctrl-C ends it
	@trap : INT TERM; tsc --noEmit --watch --preserveWatchOutput -p test/tsconfig.json & compiler=$$!; \
	  jest --watch --selectProjects unit $(SELECTED); kill -KILL $$compiler

unit: install ## run the tests that need no server; ONLY=words of a path, NAME=words of a title
	@jest --selectProjects unit --maxWorkers=$(UNIT_WORKERS) $(SELECTED)

lint: install ## check style and types
	@npm run --silent lint

format: install ## write all sources in the style that lint checks
	@npm run --silent format

generate: dev-build ## write the generated files, docs/tables.md among them (uses or starts Postgres)
	@node build/dev/generate.js && node build/dev/generate.js tables

# What is older than its sources is made again. The file of a target is the sign of its whole build, and goes if the build fails.
.DELETE_ON_ERROR:
SOURCES := $(shell find src dev schemas -type f) package.json tsconfig.json
dist/cli.js: node_modules/.package-lock.json $(SOURCES)
	@npm run --silent build

build/dev/test.js: dist/cli.js
	@npm run --silent build:dev

build: dist/cli.js ## compile to dist/

dev-build: build/dev/test.js ## compile the tools of dev/ to build/

install: node_modules/.package-lock.json ## install the packages of package-lock.json

##@ Servers
stack: dev-build ## start Kafka, Postgres and a schema registry, and print their addresses
	@exec node build/dev/stack.js

demo: dev-build ## watch events go through Kafka into the verdict tables of Postgres
	@exec node build/dev/demo.js

example-wallet: dev-build ## start a wallet on a Postgres of its own, for wallet-check; BUG=names of dev/example-wallet/bugs.ts
	@exec node build/dev/example-wallet.js $(BUG)

##@ Tests
test: dev-build ## run every check and every test, on real servers (20 minutes)
	@node build/dev/test.js

test-long: dev-build ## the same with more seeds and kills, and the tests that take minutes (an hour)
	@LONG=1 FAULTS=all node build/dev/test.js

test-faults: dev-build ## run the tests of every fault, also those of minutes, and print the results (20 minutes)
	@node build/dev/faults.js

# The seeds are random, or one is given: SEED=n, WITHOUT=records and faults to leave out.
SEEDS ?= 10000
simulate: install ## run random seeds of the simulator; SEEDS=number, or SEED=n of test/README.md
	@FIRST_SEED=$$(( RANDOM * 32768 + RANDOM )) SEEDS=$(SEEDS) $(if $(SEED),SEED=$(SEED)) $(if $(WITHOUT),WITHOUT=$(WITHOUT)) \
	  jest --selectProjects simulation --testPathPatterns simulation.test

soak: dev-build ## load for MINUTES=60 while workers come and go and Kafka restarts
	@BENCH=unrest $(if $(MINUTES),BENCH_MINUTES=$(MINUTES)) node build/dev/bench.js

bench: dev-build ## measure speed and cost; BENCH=help lists the modes
	@exec node build/dev/bench.js

mutation: dev-build ## change each line of the rules, and look for a test that fails (half an hour)
	@node build/dev/mutation.js

##@ One layer of tests; ONLY=words of a path, NAME=words of a title
repository: ## the texts of the repository: language, imports, documents, generated files
fuzz: ## random and hostile input
simulation: ## the worker over models of its servers, in virtual time
dev: ## the servers of development, and the demo
ledger: ## decisions in Postgres
stores: ## stores of every version and of many rows, and copies of them
# NAME may name a mutant that a usual run leaves out.
mutants: export LONG := $(if $(NAME),1,$(LONG))
mutants: ## defects that a test has to notice
model: ## random histories against a small model of the rules
stream: ## the worker on Kafka
webhook: ## the webhook on its servers
faults: ## the faults of docs/faults.md; FAULTS=all adds those that take minutes
monitoring: ## metrics, alerts and panels
commands: ## the commands as people run them

# A whole layer ends with the table of `make test`. A part of it lists its tests.
$(LAYERS): dev-build
	@$(if $(strip $(SELECTED)),jest --selectProjects $@ --maxWorkers=2 --verbose $(SELECTED),node build/dev/test.js $@)

##@ Chart and image
# A tool that cannot be built is named, and its checks are skipped.
chart: dev-build ## check the chart, on an API server too, and record that it passed
	@node build/dev/chart.js tools || true
	@jest --selectProjects chart --json --outputFile=build/chart-results.json
	@node build/dev/chart.js passed build/chart-results.json

chart-tools: dev-build ## build the tools of `make chart` (Go; ten minutes, once); TOOLS='helm kubeconform'
	@node build/dev/chart.js tools $(TOOLS)

cluster-test: dev-build ## install, upgrade and break the release on a Kubernetes (root, Go; or KUBECONFIG=, IMAGE=)
	@exec node build/dev/cluster.js

container-test: dev-build ## test the image, and the servers as containers (an engine; or root and Debian)
	@node build/dev/container-test.js || test $$? -eq 3

manifests: dev-build ## write the objects of Helm to build/manifests; VALUES='file...', RELEASE=, NAMESPACE=
	@RELEASE='$(or $(RELEASE),promo-intake)' NAMESPACE='$(or $(NAMESPACE),default)' node build/dev/chart.js manifests $(or $(VALUES),helm/promo-intake/examples/minimal.yaml)

# podman's own format has no HEALTHCHECK. Named by its version; IMAGE=name:tag names it otherwise, TARGET=try adds the Postgres of promo-intake try, BUILD_OPTIONS are those of docker build, such as --build-arg NODE_IMAGE=...
IMAGE ?= promo-intake:$(shell sed -nE 's/^  "version": "(.*)",/\1/p' package.json)$(if $(TARGET),-$(TARGET))
image: ## build the container image; IMAGE=name:tag, TARGET=try, BUILD_OPTIONS='--build-arg NODE_IMAGE=...'
	@engine=$$(command -v docker || command -v podman) || { echo 'image: neither docker nor podman is here: install one of them'; exit 1; }; \
	"$$engine" version > /dev/null 2>&1 || { echo "image: no container engine answers $$engine: start one, or name its address in DOCKER_HOST"; exit 1; }; \
	case $$engine in *podman) format='--format docker' ;; *) format= ;; esac; \
	"$$engine" build $$format $(if $(TARGET),--target $(TARGET) )--tag '$(IMAGE)' --build-arg VERSION="$$(git describe --always --dirty 2> /dev/null || echo unknown)" \
	  --build-arg REVISION="$$(git rev-parse HEAD 2> /dev/null || echo unknown)" \
	  --build-arg CREATED="$$(git log -1 --format=%cI 2> /dev/null || echo unknown)" $(BUILD_OPTIONS) .

##@ Packages
audit: ## fail on known vulnerabilities of the product's packages, high or worse (asks the registry)
	@npm audit --omit=dev --audit-level=high || { echo 'audit: not passed. Where npm says above that the endpoint returned an error, the registry gave no answer and nothing is known.'; exit 1; }

# npm leaves out packages that tools of development share with the product, and names the product by its folder. So it is asked in a folder of that name, about what the image has.
define PRODUCT_ALONE
const { mkdirSync, readFileSync, writeFileSync } = require('node:fs');
const [manifest, lock] = ['package.json', 'package-lock.json'].map((name) => JSON.parse(readFileSync(name, 'utf8')));
for (const root of [manifest, lock.packages['']]) { delete root.devDependencies; delete root.optionalDependencies; }
for (const [path, { dev, optional, devOptional }] of Object.entries(lock.packages)) if (dev || optional || devOptional) delete lock.packages[path];
const [, folder] = process.argv;
mkdirSync(folder);
writeFileSync(`$${folder}/package.json`, JSON.stringify(manifest));
writeFileSync(`$${folder}/package-lock.json`, JSON.stringify(lock));
endef
export PRODUCT_ALONE
sbom: ## write build/sbom.cdx.json, the packages of the image as CycloneDX
	@mkdir -p build && folder=$$(mktemp -d) && trap "rm -rf '$$folder'" EXIT && node -e "$$PRODUCT_ALONE" "$$folder/promo-intake" && \
	  (cd "$$folder/promo-intake" && npm sbom --sbom-format=cyclonedx --sbom-type=application --package-lock-only) > build/sbom.cdx.json && echo build/sbom.cdx.json

package: install ## write the npm package of the command to build/: check, send, reconcile, try without a checkout
	@rm -rf dist && npm run --silent build && mkdir -p build && npm pack --silent --ignore-scripts --pack-destination build

clean: ## remove dist, build and coverage
	rm -rf dist build coverage
