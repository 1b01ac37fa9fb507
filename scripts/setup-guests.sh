#!/usr/bin/env bash
# Makes sure that guests can be compiled: takes the toolchains that are there, for Rust else rustup's target, else Debian's packages
# (as root), else says what to install. Only Rust must be there. Running it again does nothing.
set -euo pipefail
weir_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$weir_root/scripts/guest-toolchain.sh"

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

if ! have_c_toolchain && can_install; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends clang-22 lld-22 || apt-get install -y -qq --no-install-recommends clang lld || true
fi
if ! have_python_venv && can_install; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends python3 python3-venv || true
fi
# A broken installation leaves no componentize-py, and is made anew.
if ! have_python_toolchain && have_python_venv; then
  rm -rf "$(python_venv)"
  python3 -m venv "$(python_venv)" && "$(python_venv)/bin/python" -m pip install --quiet "$(python_tool)" || rm -rf "$(python_venv)"
fi
explain_other_toolchains

if select_guest_toolchain; then
  exit 0
fi
if command -v rustup >/dev/null && (cd "$weir_root" && rustup target add "$guest_target") && select_guest_toolchain; then
  exit 0
fi
if can_install; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22 || true
  if select_guest_toolchain; then
    exit 0
  fi
fi
explain_guest_toolchain
exit 1
