#!/usr/bin/env bash
# Tests of the SDKs for C and Go and of the guests made with them, natively. Without Go its tests are left out, and it says so.
set -euo pipefail
weir_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$weir_root/scripts/guest-toolchain.sh"
cache="${WEIR_CACHE:-$HOME/.cache/weir}"

for makefile in "$weir_root"/sdk/c/Makefile "$weir_root"/guests/c/*/Makefile; do
  make --no-print-directory -C "$(dirname "$makefile")" OUT="$cache/guests-target/c/test" test
done
if have_go_toolchain; then
  for manifest in "$weir_root"/sdk/go/go.mod "$weir_root"/guests/go/*/go.mod; do
    (cd "$(dirname "$manifest")" && go vet ./... && go test ./...)
  done
fi
explain_other_toolchains
