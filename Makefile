# Targets that people and CI call. `make help` is made of the ## comments.
SHELL := /bin/bash
export PATH := $(CURDIR)/node_modules/.bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install build dev-build unit test test-faults lint generate demo stack image chart chart-tools cluster-test container-test manifests bench soak simulate audit sbom clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

node_modules/.package-lock.json: package.json package-lock.json
	@command -v npm > /dev/null || { echo 'npm is missing: install Node.js 20.12 or newer, which brings npm'; exit 1; }
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

# podman's own format has no HEALTHCHECK. Named by its version; IMAGE=name:tag names it otherwise, BUILD_OPTIONS are those of docker build, such as --build-arg NODE_IMAGE=...
IMAGE ?= promo-intake:$(shell sed -nE 's/^  "version": "(.*)",/\1/p' package.json)
image: ## build the container image; IMAGE=name:tag, BUILD_OPTIONS='--build-arg NODE_IMAGE=...'
	@engine=$$(command -v docker || command -v podman) || { echo 'image: neither docker nor podman is here: install one of them'; exit 1; }; \
	"$$engine" version > /dev/null 2>&1 || { echo "image: no container engine answers $$engine: start one, or name its address in DOCKER_HOST"; exit 1; }; \
	case $$engine in *podman) format='--format docker' ;; *) format= ;; esac; \
	"$$engine" build $$format --tag '$(IMAGE)' --build-arg VERSION="$$(git describe --always --dirty 2> /dev/null || echo unknown)" \
	  --build-arg REVISION="$$(git rev-parse HEAD 2> /dev/null || echo unknown)" \
	  --build-arg CREATED="$$(git log -1 --format=%cI 2> /dev/null || echo unknown)" $(BUILD_OPTIONS) .

chart-tools: dev-build ## build what the chart is checked with (Go; ten minutes, once), or TOOLS='helm kubeconform'
	@node build/dev/chart.js tools $(TOOLS)

# What cannot be built is said, and skips its checks.
chart: dev-build ## check the chart: lint, templates, schemas, score, bad values, a real API server
	@node build/dev/chart.js tools || true
	@jest --selectProjects chart --json --outputFile=build/chart-results.json
	@node build/dev/chart.js passed build/chart-results.json

cluster-test: dev-build ## install, upgrade, drain and break the release on a real Kubernetes: one of this machine (root, Go), or KUBECONFIG= IMAGE=
	@exec node build/dev/cluster.js

container-test: dev-build ## test the image, and the servers as containers, on the engine that answers or on one that is started for it (root, Debian)
	@node build/dev/container-test.js || test $$? -eq 3

manifests: dev-build ## write what Helm would install to build/manifests; VALUES='file...', RELEASE=, NAMESPACE=
	@RELEASE='$(or $(RELEASE),promo-intake)' NAMESPACE='$(or $(NAMESPACE),default)' node build/dev/chart.js manifests $(or $(VALUES),helm/promo-intake/examples/minimal.yaml)

demo: dev-build ## watch real events go through a real Kafka into verdict tables in a real Postgres
	@exec node build/dev/demo.js

bench: dev-build ## measure; BENCH=mode, see docs/performance.md
	@exec node build/dev/bench.js

soak: dev-build ## load for MINUTES=60 while workers come and go and Kafka is started anew: nothing lost, nothing twice
	@BENCH=unrest $(if $(MINUTES),BENCH_MINUTES=$(MINUTES)) node build/dev/bench.js

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
sbom: ## write build/sbom.cdx.json, a CycloneDX list of the packages of the image
	@mkdir -p build && folder=$$(mktemp -d) && trap "rm -rf '$$folder'" EXIT && node -e "$$PRODUCT_ALONE" "$$folder/promo-intake" && \
	  (cd "$$folder/promo-intake" && npm sbom --sbom-format=cyclonedx --sbom-type=application --package-lock-only) > build/sbom.cdx.json && echo build/sbom.cdx.json

clean: ## remove what was built
	rm -rf dist build coverage
