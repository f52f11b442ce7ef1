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
RUSTDOC = RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps $(LOCKED)

# cargo-deny as installed on the machine, or this version of it, built into the target folder.
DENY_VERSION := 0.20.2
DENY_BUILT := $(TARGET)/tools/bin/cargo-deny
DENY := $(or $(shell command -v cargo-deny),$(DENY_BUILT))
# Bounds the advisory download, where the machine has the command for it.
BOUND := $(if $(shell command -v timeout),timeout 60)

# The emulators of `make test-aws`: those that these variables name, or these versions, put into the target folder.
DYNOXIDE_VERSION := 3.2.0
MINISTACK_VERSION := 1.5.33
DYNOXIDE_BUILT := $(abspath $(TARGET)/tools/dynoxide-$(DYNOXIDE_VERSION))/bin/dynoxide
MINISTACK_BUILT := $(abspath $(TARGET)/tools/ministack-$(MINISTACK_VERSION))/bin/ministack
export STEPWELL_DYNOXIDE ?= $(DYNOXIDE_BUILT)
export STEPWELL_MINISTACK ?= $(MINISTACK_BUILT)
# Everyday work builds none of this: the AWS SDK takes minutes.
FUNCTIONS := runner api sweeper dead-letter
AWS_CRATES := stepwell-aws stepwell-localaws stepwell-lambda $(FUNCTIONS) stepwell-e2e
# What `make aws-up` leaves for `make aws-down`. A number alone may belong to another process by now.
AWS := $(TARGET)/aws
AWS_RUNS = ps -o args= -p "$$(cat $(AWS)/pid 2>/dev/null || echo 0)" 2>/dev/null | grep -q stepwell-localaws

# Targets share one build folder: side by side they would only wait for each other and mix their output.
.NOTPARALLEL:
.PHONY: help run crash test test-aws aws-tools aws-up aws-down lint verify fix deny chaos bench docs clean

help: ## List every target (this text)
	@if [ -t 1 ] && [ -z "$${NO_COLOR:-}" ]; then on=$$'\e[36m' off=$$'\e[0m'; else on= off=; fi; \
	awk -F ':.*## ' -v on="$$on" -v off="$$off" '/^[a-z-]+:.*## / { printf "  %s%-9s%s %s\n", on, $$1, off, $$2 }' Makefile

run: $(PROGRAM) ## Build the program and start its demonstration (ARGS="…" is passed on)
	@$(SAY) "building what changed and starting the demonstration"
	@$(RUN) -p stepwell-cli -- demo $(ARGS)

crash: $(PROGRAM) ## The demonstration with its worker killed half-way: it must recover by itself
	@$(SAY) "building what changed and starting the demonstration with a crash"
	@$(RUN) -p stepwell-cli -- demo --crash $(ARGS)

test: ## Everyday tests and the examples in the docs; the last line counts them
	@$(SAY) "running every test but the chaos and the AWS suites, and the examples in the docs"
	@$(SUITE) test -- cargo test --workspace --exclude stepwell-chaos $(AWS_CRATES:%=--exclude %) --no-fail-fast $(LOCKED) $(ARGS)

chaos: ## Real processes, really killed, until every run has ended well
	@$(SAY) "running the chaos suite: it kills the processes it starts"
	@$(SUITE) chaos -- cargo test -p stepwell-chaos --no-fail-fast $(LOCKED) $(ARGS)

test-aws: aws-tools ## The AWS adapters against emulators on this machine
	@$(SAY) "running the tests of the AWS adapters (first time: the AWS SDK is built, some minutes)"
	@$(SUITE) test-aws -- cargo test $(AWS_CRATES:%=-p %) --no-fail-fast $(LOCKED) $(ARGS)

aws-tools: | $(STEPWELL_DYNOXIDE) $(STEPWELL_MINISTACK) ## Install the emulators of AWS that are missing, into the target folder

aws-up: aws-tools ## Start the emulators of AWS in the background, and say what to export
	@$(SAY) "building what changed, and starting the emulators if they do not run"
	@cargo build -q $(LOCKED) -p stepwell-localaws
	@mkdir -p $(AWS)
	@if ! $(AWS_RUNS); then \
		rm -f $(AWS)/environment; \
		nohup $(TARGET)/debug/stepwell-localaws >$(AWS)/environment 2>$(AWS)/log </dev/null & echo $$! >$(AWS)/pid; \
		until [ -s $(AWS)/environment ]; do $(AWS_RUNS) || { cat $(AWS)/log >&2; exit 1; }; sleep 0.1; done; \
	fi
	@cat $(AWS)/environment

aws-down: ## End what `make aws-up` started
	@if $(AWS_RUNS); then kill "$$(cat $(AWS)/pid)"; while $(AWS_RUNS); do sleep 0.1; done; fi
	@rm -rf $(AWS)

bench: ## Measure durable steps, growth, memory and recovery (optimised build)
	@$(SAY) "building with optimisation (first time: a few minutes) and measuring"
	@cargo run --profile bench $(LOCKED) -p stepwell-bench -- $(ARGS)

lint: ## Format, clippy, docs and dependencies, without changing a file
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features $(LOCKED) -- -D warnings
	$(RUSTDOC)
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
