# `make demo` runs the flights job; `make test` passes the whole suite. Both install or ask for what is missing.

WEIR_CACHE ?= $(HOME)/.cache/weir
export WEIR_CACHE
# Outside the checkout, so that a fresh clone only rebuilds Weir's own crates.
CARGO_TARGET_DIR ?= $(WEIR_CACHE)/target
export CARGO_TARGET_DIR
CARGO ?= cargo
RELEASE := $(CARGO_TARGET_DIR)/release

.PHONY: demo test soak bench build guests setup lint

setup:
	@scripts/setup.sh

# The whole workspace at once: a part alone would select other features of shared crates, and compile wasmtime again.
build: setup
	$(CARGO) build --locked --release --workspace --bins

guests: build
	scripts/setup-guests.sh
	WEIR_COMPONENTIZE=$(RELEASE)/weir-componentize scripts/build-guests.sh

demo: guests
	scripts/demo.sh $(RELEASE)/weir

# The same command as in CI.
test: guests
	scripts/test.sh

# Every crash point at every parallelism, many random kills: half an hour and more.
soak: guests
	WEIR_SOAK=1 $(CARGO) test --locked --release --workspace --test e2e -- --nocapture --test-threads 2

# ARGS=--quick: short windows, without Flink; ARGS='snapshot': what has this in its name.
bench: guests
	$(CARGO) bench --locked --workspace --bench all -- $(ARGS)

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --release --workspace --all-targets -- -D warnings
