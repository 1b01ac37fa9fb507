#!/usr/bin/env bash
# The whole test suite: the workspace, then the guests natively. `make test` builds what it needs first.
set -euo pipefail
cd "$(dirname "$0")/.."
export WEIR_CACHE="${WEIR_CACHE:-$HOME/.cache/weir}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$WEIR_CACHE/target}"

scripts/setup.sh tests
cargo test --locked --release --workspace
make -C guests test
