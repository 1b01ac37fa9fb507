#!/usr/bin/env bash
# Makes sure that guests can be compiled: takes the toolchain that is there, else rustup's target, else Debian's packages
# (as root), else says what to install. Running it again does nothing.
set -euo pipefail
weir_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$weir_root/scripts/guest-toolchain.sh"

if select_guest_toolchain; then
  exit 0
fi
if command -v rustup >/dev/null && (cd "$weir_root" && rustup target add "$guest_target") && select_guest_toolchain; then
  exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22 || true
  if select_guest_toolchain; then
    exit 0
  fi
fi
explain_guest_toolchain
exit 1
