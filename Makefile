# The one entry to every task. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

# Words for the program or the tests: `make run ARGS=--help`, `make test ARGS="-- lease"`.
ARGS ?=
# `--locked` where a changed Cargo.lock must be an error; `make verify` sets it.
LOCKED ?=

TARGET := $(or $(CARGO_TARGET_DIR),target)
PROGRAM := $(TARGET)/debug/stepwell
RUN = cargo run -q $(LOCKED)
SUITE = $(RUN) -p stepwell-report --bin suite --
SAY := echo >&2
# Libraries only: the program and the SDK are both called `stepwell`, and would overwrite each other's pages.
RUSTDOC = RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --features $(EFFECTS) $(LOCKED)

# cargo-deny as installed on the machine, or this version of it, built into the target folder.
DENY_VERSION := 0.20.2
DENY_BUILT := $(TARGET)/tools/bin/cargo-deny
DENY := $(or $(shell command -v cargo-deny),$(DENY_BUILT))
# Bounds the advisory download, where the machine has the command for it.
BOUND := $(if $(shell command -v timeout),timeout 60)

# The emulators of `make test-aws`: those that these variables name, or these versions, put into the target folder.
DYNOXIDE_VERSION := 3.2.0
MINISTACK_VERSION := 1.5.33
LOCALSTACK_VERSION := 4.14.0
DYNOXIDE_BUILT := $(abspath $(TARGET)/tools/dynoxide-$(DYNOXIDE_VERSION))/bin/dynoxide
MINISTACK_BUILT := $(abspath $(TARGET)/tools/ministack-$(MINISTACK_VERSION))/bin/ministack
export STEPWELL_DYNOXIDE ?= $(DYNOXIDE_BUILT)
export STEPWELL_MINISTACK ?= $(MINISTACK_BUILT)
LOCALSTACK_BUILT := $(abspath $(TARGET)/tools/localstack-$(LOCALSTACK_VERSION))/bin/stepwell-localstack
export STEPWELL_LOCALSTACK ?= $(LOCALSTACK_BUILT)
# Who plays AWS: ministack, localstack, localstack-docker (needs a Docker engine), or endpoint (where AWS_ENDPOINT_URL says).
export LOCAL_AWS ?= ministack
NEEDS_ministack := $(STEPWELL_DYNOXIDE) $(STEPWELL_MINISTACK)
NEEDS_localstack := $(STEPWELL_DYNOXIDE) $(STEPWELL_LOCALSTACK)
# LocalStack wants Python 3.12 or later. A name alone says little: it may be a shim that does not run, or another version.
PYTHON_FOR_LOCALSTACK = $(shell for python in python3.13 python3.12 python3.14 python3 \
	"$$(pyenv root 2>/dev/null)"/versions/3.1[2-9]*/bin/python3; do \
	if "$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then echo "$$python"; break; fi; done)
# Everyday work builds none of this: the AWS SDK takes minutes.
FUNCTIONS := runner api sweeper dead-letter
# The program with AWS: tests of stacks use it, and it is tested as such.
AWS_CLI := -p stepwell-cli --features stepwell-cli/aws
# So are the effects on SQS and S3, whose examples are tried nowhere else.
AWS_EFFECTS := -p stepwell-effects --features stepwell-effects/sqs,stepwell-effects/s3
# All of them, for the docs: without a feature that crate is empty.
EFFECTS := stepwell-effects/http,stepwell-effects/smtp,stepwell-effects/sqs,stepwell-effects/s3
AWS_CRATES := stepwell-aws stepwell-localaws stepwell-lambda $(FUNCTIONS) stepwell-e2e stepwell-api-suite
# Named together, always: alone, each would build the AWS SDK once more, with features of its own.
AWS_SET := $(AWS_CRATES:%=-p %) $(AWS_CLI) $(AWS_EFFECTS)
# Programs of them, with a small test beside them, since tests bring features along, too.
aws_programs = cargo build -q $(LOCKED) $(AWS_SET) --test connect $(1:%=--bin %)
# What `make aws-up` leaves for `make aws-down`. A number alone may belong to another process by now.
AWS := $(TARGET)/aws
AWS_RUNS = ps -o args= -p "$$(cat $(AWS)/pid 2>/dev/null || echo 0)" 2>/dev/null | grep -q stepwell-localaws

# The tools of a deployment: from PyPI, these versions, each in a folder of its own in the target folder.
CARGO_LAMBDA_VERSION := 1.9.2
AWSCLI_VERSION := 1.46.3
CFN_LINT_VERSION := 1.58.0
CARGO_LAMBDA := $(abspath $(TARGET)/tools/cargo-lambda-$(CARGO_LAMBDA_VERSION))/bin/cargo-lambda
AWSCLI_BUILT := $(abspath $(TARGET)/tools/awscli-$(AWSCLI_VERSION))/bin/aws
CFN_LINT := $(abspath $(TARGET)/tools/cfn-lint-$(CFN_LINT_VERSION))/bin/cfn-lint
# Zig links for the C library of Amazon Linux, whatever this machine has.
ZIG_VERSION := 0.17.1
export STEPWELL_AWSCLI ?= $(AWSCLI_BUILT)
NEEDS_AWSCLI := $(filter $(AWSCLI_BUILT),$(STEPWELL_AWSCLI))
# The suites over HTTP. What tries the API comes from PyPI; what drives a browser, and what looks for barriers in a page, come
# from npm. The browser is the machine's own: nobody's build of one is downloaded.
SCHEMATHESIS_VERSION := 4.32.5
PLAYWRIGHT_VERSION := 1.65.1
AXE_VERSION := 4.14.1
SCHEMATHESIS_BUILT := $(abspath $(TARGET)/tools/schemathesis-$(SCHEMATHESIS_VERSION))/bin/schemathesis
export STEPWELL_SCHEMATHESIS ?= $(SCHEMATHESIS_BUILT)
BROWSER_TOOLS := $(abspath $(TARGET)/tools/browser-$(PLAYWRIGHT_VERSION)-$(AXE_VERSION))
export STEPWELL_BROWSER_TOOLS ?= $(BROWSER_TOOLS)
NEEDS_BROWSER_TOOLS := $(if $(filter $(BROWSER_TOOLS),$(STEPWELL_BROWSER_TOOLS)),$(BROWSER_TOOLS)/installed)
export STEPWELL_CHROMIUM ?= /usr/bin/chromium

# What changes the product's code, to see whether a test notices.
MUTANTS_VERSION := 27.1.0
MUTANTS := $(abspath $(TARGET)/tools/cargo-mutants-$(MUTANTS_VERSION))/bin/cargo-mutants

# How long sim-long goes on, and fuzz-long with all of its targets. chaos-long is as long as its runs and faults are.
MINUTES ?= 30
SEED ?=

# What functions are built for, and more parameters of the stack: `make deploy STAGE=dev PARAMS="RunnerMemory=512"`.
ARCH ?= x86_64
RUST_ARCH = $(or $(and $(filter x86_64,$(ARCH)),x86_64),$(and $(filter arm64,$(ARCH)),aarch64),$(error ARCH is x86_64 or arm64, not $(ARCH)))
RUST_TARGET = $(RUST_ARCH)-unknown-linux-gnu
PARAMS ?=
FUNCTION ?= runner
STACK = stepwell-$(or $(STAGE),$(error say which stage: make $@ STAGE=dev))

# Targets share one build folder: side by side they would only wait for each other and mix their output.
.NOTPARALLEL:
.PHONY: help run crash dev test model sim sim-long chaos chaos-long chaos-aws fuzz fuzz-long mutants proof test-aws test-api test-console e2e aws-tools aws-up aws-down lint verify fix deny bench docs clean build deploy outputs logs undeploy watch template

help: ## List every target (this text)
	@if [ -t 1 ] && [ -z "$${NO_COLOR:-}" ]; then on=$$'\e[36m' off=$$'\e[0m'; else on= off=; fi; \
	awk -F ':.*## ' -v on="$$on" -v off="$$off" '/^[a-z0-9-]+:.*## / { printf "  %s%-12s%s %s\n", on, $$1, off, $$2 }' Makefile

run: $(PROGRAM) ## Build the program and start its demonstration (ARGS="…" is passed on)
	@$(SAY) "building what changed and starting the demonstration"
	@$(RUN) -p stepwell-cli -- demo $(ARGS)

crash: $(PROGRAM) ## The demonstration with its worker killed half-way: it must recover by itself
	@$(SAY) "building what changed and starting the demonstration with a crash"
	@$(RUN) -p stepwell-cli -- demo --crash $(ARGS)

# Its last process is the program itself, so that Ctrl-C and SIGTERM reach it.
dev: $(PROGRAM) ## The API, the console and a worker on this machine, with a demo to try them on (ARGS="…" is passed on)
	@$(SAY) "building what changed and starting; Ctrl-C stops it"
	@cargo build -q $(LOCKED) -p stepwell-cli
	@exec $(PROGRAM) dev $(ARGS)

test: ## Everyday tests and the examples in the docs; the last line counts them
	@$(SAY) "running every test but the chaos and the AWS suites, and the examples in the docs"
	@$(SUITE) test -- cargo test --workspace --exclude stepwell-chaos $(AWS_CRATES:%=--exclude %) --no-fail-fast $(LOCKED) $(ARGS)

# Optimised: it searches millions of states, and builds little for it.
model: ## Every reachable state of small worlds, over the protocol's own functions (ARGS=--long: larger ones)
	@$(SAY) "building with optimisation, and searching every state that the protocol can reach in small worlds"
	@$(RUN) --profile bench -p stepwell-model -- $(ARGS)

sim: ## The engine in a world that fails in every way, 10,000 seeds of it (SEED=… tells the story of one)
	@$(SAY) "building what changed, and simulating: everything that goes wrong follows from a seed"
	@$(RUN) -p stepwell-simulation -- $(if $(SEED),--seed $(SEED) --trace) $(ARGS)

sim-long: ## The same for MINUTES=30 or as long as you say, optimised, from a seed that no run before had
	@$(SAY) "building with optimisation, and simulating for $(MINUTES) minutes"
	@$(RUN) --profile bench -p stepwell-simulation -- --minutes $(MINUTES) --from $$(date +%s)000000 $(ARGS)

chaos: ## Real processes, killed, frozen and cut off, until every run has ended well
	@$(SAY) "building what changed, and running the chaos suite: it kills the processes it starts"
	@$(SUITE) chaos -- cargo test -p stepwell-chaos --no-fail-fast $(LOCKED) $(ARGS)

chaos-long: ## Its long story with ten times as many runs and faults: they say how long it is (STEPWELL_CHAOS_RUNS=…, STEPWELL_CHAOS_FAULTS=…, STEPWELL_CHAOS_SEED=…)
	@$(SAY) "building what changed, and running the long story of the chaos suite: it kills the processes it starts"
	@STEPWELL_CHAOS_RUNS=$${STEPWELL_CHAOS_RUNS:-10000} STEPWELL_CHAOS_FAULTS=$${STEPWELL_CHAOS_FAULTS:-3200} \
		$(SUITE) chaos-long -- cargo test -p stepwell-chaos --test story --no-fail-fast $(LOCKED) $(ARGS)

chaos-aws: | $(and $(filter ministack localstack,$(LOCAL_AWS)),$(sort $(NEEDS_$(LOCAL_AWS)))) ## That story on emulated AWS (LOCAL_AWS=ministack|localstack)
	@$(SAY) "running the chaos suite on emulated AWS (first time: the AWS SDK is built, some minutes)"
	@$(SUITE) chaos-aws -- cargo test $(AWS_SET) -p stepwell-chaos --features stepwell-chaos/aws \
		--test aws --no-fail-fast $(LOCKED) $(ARGS)

fuzz: ## Made-up bytes for what reads stored and foreign data: a few seconds each
	@$(SAY) "building the fuzz targets with coverage, and fuzzing each for a few seconds"
	@$(RUN) -p stepwell-fuzz -- $(ARGS)

fuzz-long: ## The same for MINUTES=30, or as long as you say, in sum over all targets
	@$(SAY) "building the fuzz targets with coverage, and fuzzing all of them for $(MINUTES) minutes in sum"
	@$(RUN) -p stepwell-fuzz -- --minutes $(MINUTES) $(ARGS)

# Hours for all of them: name files, or a shard of them, such as ARGS="-f shared/core/src/write.rs" or ARGS="--shard 3/50".
mutants: | $(MUTANTS) ## Change the product's code a line at a time: which change does no test notice? (ARGS="-f FILE")
	@$(SAY) "testing mutants of core and engine; target/mutants.out has the list"
	@$(RUN) -p stepwell-proof --bin mutants -- $(MUTANTS) $(ARGS)

proof: ## Which suite notices which broken engine: the table in shared/PROOF.md, made anew (ARGS=--write puts it there)
	@$(SAY) "building what changed, and breaking the engine on purpose, once for each promise"
	@$(RUN) -p stepwell-proof --bin stepwell-proof -- $(ARGS)

# Two of the suites run on both emulators.
test-aws: | $(and $(filter ministack localstack,$(LOCAL_AWS)),$(sort $(NEEDS_ministack) $(NEEDS_localstack))) ## The AWS adapters against emulators on this machine
	@$(SAY) "running the tests of the AWS adapters (first time: the AWS SDK is built, some minutes)"
	@STEPWELL_CLI=$(abspath $(TARGET))/debug/stepwell $(SUITE) test-aws -- cargo test $(AWS_SET) --no-fail-fast $(LOCKED) $(ARGS)

# The program and the function as they are.
test-api: | $(sort $(NEEDS_ministack)) $(filter $(SCHEMATHESIS_BUILT),$(STEPWELL_SCHEMATHESIS)) ## The API tried with made-up requests, against its own description: embedded, and behind Lambda's events
	@$(SAY) "building the program and the api function (first time: the AWS SDK is built, some minutes)"
	@$(call aws_programs,api stepwell-api-suite)
	@cargo build -q $(LOCKED) -p stepwell-cli
	@$(SAY) "trying the API with made-up requests"
	@$(TARGET)/debug/stepwell-api-suite $(ARGS)

test-console: | $(NEEDS_BROWSER_TOOLS) ## The console in a real browser: the whole of a run's life, barriers, phone, dark and light
	@command -v node >/dev/null || { $(SAY) "the browser is driven by Node, and this machine has none. On Debian: apt-get install nodejs"; exit 1; }
	@[ -x "$(STEPWELL_CHROMIUM)" ] || { \
		$(SAY) "there is no Chromium at $(STEPWELL_CHROMIUM). On Debian: apt-get install chromium. Elsewhere name it in STEPWELL_CHROMIUM."; exit 1; }
	@$(SAY) "building what changed, and driving the console in a browser"
	@cargo build -q $(LOCKED) -p stepwell-cli -p stepwell-console-suite
	@$(TARGET)/debug/stepwell-console-suite $(ARGS)

e2e: | $(and $(filter ministack localstack,$(LOCAL_AWS)),$(sort $(NEEDS_ministack) $(NEEDS_localstack))) $(NEEDS_AWSCLI) ## The template deployed to emulators with the built functions, driven and killed from outside
	@$(MAKE) build
	@$(SAY) "deploying to the emulators and driving what is there"
	@$(call aws_programs,stepwell-e2e)
	@$(TARGET)/debug/stepwell-e2e $(ARGS)

aws-tools: | $(sort $(NEEDS_ministack) $(NEEDS_localstack)) ## Install the emulators of AWS that are missing, into the target folder

aws-up: | $(NEEDS_$(LOCAL_AWS)) ## Start the emulators of AWS in the background, and say what to export
	@$(SAY) "building what changed, and starting the emulators if they do not run"
	@$(call aws_programs,stepwell-localaws)
	@mkdir -p $(AWS)
	@if $(AWS_RUNS) && ! grep -qx '# played by $(LOCAL_AWS)' $(AWS)/environment; then \
		$(SAY) "another one plays AWS already; end it first: make aws-down"; exit 1; fi
	@if ! $(AWS_RUNS); then \
		rm -f $(AWS)/environment; \
		nohup $(TARGET)/debug/stepwell-localaws >$(AWS)/environment 2>$(AWS)/log </dev/null & echo $$! >$(AWS)/pid; \
		until [ -s $(AWS)/environment ]; do $(AWS_RUNS) || { cat $(AWS)/log >&2; exit 1; }; sleep 0.1; done; \
	fi
	@cat $(AWS)/environment

aws-down: ## End what `make aws-up` started
	@if $(AWS_RUNS); then kill "$$(cat $(AWS)/pid)"; while $(AWS_RUNS); do sleep 0.1; done; fi
	@rm -rf $(AWS)

build: | $(CARGO_LAMBDA) ## Build the functions for AWS (ARCH=x86_64|arm64) and say how large they are
	@[ -d "$$(rustc --print target-libdir --target $(RUST_TARGET))" ] || { \
		$(SAY) "this Rust cannot build for $(RUST_TARGET); where rustup manages it: rustup target add $(RUST_TARGET)"; exit 1; }
	@$(SAY) "building the functions for $(ARCH), optimised (first time: the AWS SDK is built, some minutes)"
	@PATH="$(dir $(CARGO_LAMBDA)):$$PATH" $(CARGO_LAMBDA) lambda build --profile lambda --target $(RUST_TARGET) \
		--lambda-dir target/lambda $(FUNCTIONS:%=-p %) $(LOCKED)
	@for name in $(FUNCTIONS); do $(dir $(CARGO_LAMBDA))python -c "$$SIZES" $$name target/lambda/$$name/bootstrap; done

deploy: | $(if $(STAGE),$(NEEDS_AWSCLI)) ## Build the functions, and make or update the stack of STAGE=… (PARAMS="Name=Value …")
	@: $(STACK)
	@$(MAKE) build
	@infra/deploy $(STACK) Architecture=$(ARCH) $(PARAMS)

outputs: | $(if $(STAGE),$(NEEDS_AWSCLI)) ## Print what to export to work with the stack of STAGE=…
	@infra/deploy --outputs $(STACK)

logs: | $(if $(STAGE),$(NEEDS_AWSCLI)) ## Follow the logs of STAGE=… (FUNCTION=runner|api|sweeper|dead-letter)
	@infra/logs $(STACK) $(FUNCTION)

undeploy: | $(if $(STAGE),$(NEEDS_AWSCLI)) ## Delete the stack of STAGE=…; its table and bucket stay
	@infra/deploy --remove $(STACK)

# One at a time: from the top of the workspace cargo-lambda finds no function.
watch: | $(CARGO_LAMBDA) ## Serve one function on this machine, built again when it changes (FUNCTION=runner|api|…)
	@$(SAY) "serving $(FUNCTION) on http://127.0.0.1:9000; table, queues and bucket are what the environment names (see make aws-up)"
	@$(CARGO_LAMBDA) lambda watch --invoke-address 127.0.0.1 --manifest-path functions/$(FUNCTION)/Cargo.toml $(ARGS)

bench: ## Measure durable steps, growth, memory and recovery (optimised build)
	@$(SAY) "building with optimisation (first time: a few minutes) and measuring"
	@cargo run --profile bench $(LOCKED) -p stepwell-bench -- $(ARGS)

lint: ## Format, clippy, docs, template and dependencies, without changing a file
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features $(LOCKED) -- -D warnings
	$(RUSTDOC)
	@$(MAKE) template
	@$(MAKE) deny LOCKED=$(LOCKED)

verify: LOCKED := --locked
verify: lint test ## Everything before a commit: lint and test; changes no file

fix: ## Let rustfmt and clippy repair what they can
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all

deny: | $(DENY) ## Licences, sources and known advisories of every dependency
	$(DENY) $(LOCKED) check --hide-inclusion-graph bans licenses sources
	@if GIT_TERMINAL_PROMPT=0 $(BOUND) $(DENY) fetch db >/dev/null 2>&1; then \
		$(DENY) $(LOCKED) --offline check advisories; \
	else \
		$(SAY) "advisories not checked: database not reachable"; \
	fi

template: | $(CFN_LINT) ## Check the CloudFormation template
	$(CFN_LINT) infra/template.yaml

docs: ## Build the API docs and say where they are
	@$(RUSTDOC)
	@echo "$(abspath $(TARGET))/doc/stepwell/index.html"

clean: aws-down ## Delete everything that was built
	cargo clean

# The first build shows its progress; later ones are quiet.
$(PROGRAM):
	@$(SAY) "building stepwell (the first time takes a few minutes)"
	@cargo build $(LOCKED) -p stepwell-cli

$(DENY_BUILT):
	@$(SAY) "building cargo-deny $(DENY_VERSION) into $(TARGET)/tools (once: about a minute)"
	@CARGO_PROFILE_DEV_DEBUG=0 cargo install -q cargo-deny --version $(DENY_VERSION) --locked --debug --root $(TARGET)/tools

$(MUTANTS):
	@$(SAY) "building cargo-mutants $(MUTANTS_VERSION) into $(TARGET)/tools (once: some minutes)"
	@CARGO_PROFILE_DEV_DEBUG=0 cargo install -q cargo-mutants --version $(MUTANTS_VERSION) --locked --debug --root $(abspath $(@D)/..)

$(DYNOXIDE_BUILT):
	@$(SAY) "building dynoxide $(DYNOXIDE_VERSION), which plays DynamoDB, into $(TARGET)/tools (once: some minutes)"
	@CARGO_PROFILE_DEV_DEBUG=0 cargo install -q dynoxide-rs --version $(DYNOXIDE_VERSION) --locked --debug \
		--no-default-features --features cli,http-server,native-sqlite --root $(abspath $(@D)/..)

# A folder that is half filled must not look installed.
$(MINISTACK_BUILT):
	@$(SAY) "installing MiniStack $(MINISTACK_VERSION), which plays SQS and S3, into $(TARGET)/tools (once)"
	@python3 -m venv --clear $(abspath $(@D)/..)
	@$(@D)/pip install -q --disable-pip-version-check ministack==$(MINISTACK_VERSION) \
		|| { rm -rf $(abspath $(@D)/..); exit 1; }

# The plugin is copied first: what builds it leaves files beside it. The program itself comes last, so it is there when all is.
$(LOCALSTACK_BUILT): infra/local/pyproject.toml $(wildcard infra/local/stepwell_localstack/*.py)
	@$(SAY) "installing LocalStack $(LOCALSTACK_VERSION) with the plugin of infra/local into $(TARGET)/tools (once: about a minute)"
	@[ -n "$(PYTHON_FOR_LOCALSTACK)" ] || { \
		$(SAY) "LocalStack needs Python 3.12 or later with its venv module, and this machine has none. Install one, or name a"; \
		$(SAY) "stepwell-localstack that is installed elsewhere in STEPWELL_LOCALSTACK (see infra/local/README.md)."; exit 1; }
	@$(@D)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON_FOR_LOCALSTACK)" -m venv --clear $(abspath $(@D)/..)
	@rm -rf $(@D)/../plugin && cp -R infra/local $(@D)/../plugin
	@$(@D)/python -m pip install -q --disable-pip-version-check $(@D)/../plugin

$(CARGO_LAMBDA):
	@$(SAY) "installing cargo-lambda and Zig, which build for AWS, into $(TARGET)/tools (once)"
	$(call from_pypi,cargo-lambda==$(CARGO_LAMBDA_VERSION) ziglang==$(ZIG_VERSION))

$(AWSCLI_BUILT):
	@$(SAY) "installing the AWS command line into $(TARGET)/tools (once)"
	$(call from_pypi,awscli==$(AWSCLI_VERSION))

$(CFN_LINT):
	@$(SAY) "installing cfn-lint, which checks the template, into $(TARGET)/tools (once)"
	$(call from_pypi,cfn-lint==$(CFN_LINT_VERSION))

$(SCHEMATHESIS_BUILT):
	@$(SAY) "installing Schemathesis $(SCHEMATHESIS_VERSION), which tries the API, into $(TARGET)/tools (once)"
	$(call from_pypi,schemathesis==$(SCHEMATHESIS_VERSION))

# No script of a package is run, and no browser downloaded. The mark comes last, so it is there when all is.
$(BROWSER_TOOLS)/installed:
	@command -v npm >/dev/null || { $(SAY) "what drives the browser is installed by npm, and this machine has none. On Debian: apt-get install npm"; exit 1; }
	@$(SAY) "installing playwright-core $(PLAYWRIGHT_VERSION) and axe-core $(AXE_VERSION), which drive and check pages, into $(TARGET)/tools (once)"
	@rm -rf $(@D) && mkdir -p $(@D)
	@PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --silent --no-save --no-package-lock --ignore-scripts --no-audit --no-fund \
		--prefix $(@D) playwright-core@$(PLAYWRIGHT_VERSION) axe-core@$(AXE_VERSION)
	@touch $@

# Installs packages into a Python environment of their own, around the program that the target names. A folder that is half
# filled must not look installed.
define from_pypi
	@python3 -m venv --clear $(abspath $(@D)/..)
	@$(@D)/pip install -q --disable-pip-version-check $(1) || { rm -rf $(abspath $(@D)/..); exit 1; }
endef

# Prints the size of a function, and of the archive that is uploaded.
define SIZES
import sys, zlib
name, data = sys.argv[1], open(sys.argv[2], "rb").read()
print(f"{name:12} {len(data) / 1e6:5.1f} MB, zipped {len(zlib.compress(data, 6)) / 1e6:5.1f} MB")
endef
export SIZES
