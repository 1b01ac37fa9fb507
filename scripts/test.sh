#!/usr/bin/env bash
# The whole test suite, or only what is named: scripts/test.sh [cargo test arguments | e2e]
set -euo pipefail
cd "$(dirname "$0")/.."
export WEIR_CACHE="${WEIR_CACHE:-$HOME/.cache/weir}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$WEIR_CACHE/target}"

case "${1:-}" in
    e2e) shift; exec cargo test --release -p weir-tests --test e2e -- --nocapture "$@" ;;
    "") exec cargo test --release --workspace ;;
    *) exec cargo test --release "$@" ;;
esac
