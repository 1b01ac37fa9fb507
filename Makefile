# `make demo` runs the flights job; `make test` passes the whole suite. Both install or ask for what is missing.

WEIR_CACHE ?= $(HOME)/.cache/weir
export WEIR_CACHE
# Outside the checkout, so that a fresh clone only rebuilds Weir's own crates.
export CARGO_TARGET_DIR ?= $(WEIR_CACHE)/target
CARGO ?= cargo
WEIR := $(CARGO_TARGET_DIR)/release/weir

.PHONY: demo test soak bench build guests setup lint

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release -p weir-host -p weir-componentize

guests: build
	scripts/build-guests.sh

demo: guests
	scripts/demo.sh $(WEIR)

# The same command as in CI.
test: guests
	scripts/test.sh

# Every crash point at every parallelism, many random kills: half an hour and more.
soak: guests
	WEIR_SOAK=1 scripts/test.sh e2e

bench: guests
	$(CARGO) bench -p weir-benches

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets -- -D warnings
