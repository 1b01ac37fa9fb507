# Finds the toolchains that compile guests: Rust, which all need, C, Go, JavaScript and Python. Sourced by the scripts beside it.
#
# Two kinds of Rust do:
#   rustup   the pinned toolchain with the target's standard library (`rustup target add wasm32-unknown-unknown`);
#   debian   rustc-web, cargo-web and rust-web-src, with which cargo builds the standard library itself. That needs an
#            unstable flag, hence RUSTC_BOOTSTRAP, which is set for this one command alone. Everything is called by its
#            absolute path, so that neither rustup nor rust-toolchain.toml has a say.

guest_target=wasm32-unknown-unknown

have_rustup_target() {
  command -v rustc >/dev/null && command -v cargo >/dev/null &&
    [ -d "$(cd "$weir_root" && rustc --print sysroot 2>/dev/null)/lib/rustlib/$guest_target/lib" ]
}

have_debian_toolchain() {
  [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] &&
    [ -f "$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library/Cargo.lock" ] &&
    [ -n "$(find_wasm_linker)" ]
}

# A linker for Wasm: by any of its names on PATH, or the one that rustup's toolchain carries.
find_wasm_linker() {
  local name
  for name in rust-lld wasm-ld-22 wasm-ld; do
    command -v "$name" 2>/dev/null && return
  done
  name="$(cd "$weir_root" && rustc --print sysroot 2>/dev/null)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld"
  if [ -x "$name" ]; then echo "$name"; fi
}

# Sets the array `guest_cargo` to the command that builds for the target, up to and including `build`'s flags.
select_guest_toolchain() {
  if have_rustup_target; then
    guest_cargo=(cargo build)
  elif have_debian_toolchain; then
    guest_cargo=(env -u RUSTUP_TOOLCHAIN RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
      CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$(find_wasm_linker)"
      /usr/bin/cargo build -Zbuild-std=std,panic_abort)
  else
    return 1
  fi
}

# Clang and a linker for Wasm, or zig, as sdk/c/weir.mk finds them.
have_c_toolchain() {
  command -v zig >/dev/null || command -v python-zig >/dev/null && return
  local suffix
  for suffix in "" -22 -21 -20 -19 -18 -17 -16 -15 -14; do
    command -v "clang$suffix" >/dev/null && command -v "wasm-ld$suffix" >/dev/null && return
  done
  return 1
}

# Go 1.24 or newer: older ones export no functions of a Wasm module.
have_go_toolchain() {
  local version
  version="$(go version 2>/dev/null | sed -n 's/^go version go1\.\([0-9]*\).*/\1/p')"
  [ -n "$version" ] && [ "$version" -ge 24 ]
}

# Node 20 or newer, and npm.
have_js_toolchain() {
  local version
  version="$(node --version 2>/dev/null | sed -n 's/^v\([0-9]*\)\..*/\1/p')"
  [ -n "$version" ] && [ "$version" -ge 20 ] && command -v npm >/dev/null
}

# Installs what sdk/js builds with into a folder in the cache, as its lock file says; sets WEIR_JS_TOOLS to it, for weir-js.
install_js_tools() {
  export WEIR_JS_TOOLS="$1/js-tools"
  cmp -s "$weir_root/sdk/js/package-lock.json" "$WEIR_JS_TOOLS/installed" && return
  mkdir -p "$WEIR_JS_TOOLS"
  rm -f "$WEIR_JS_TOOLS/installed"
  cp "$weir_root/sdk/js/package.json" "$weir_root/sdk/js/package-lock.json" "$WEIR_JS_TOOLS/"
  (cd "$WEIR_JS_TOOLS" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2) || return
  cp "$weir_root/sdk/js/package-lock.json" "$WEIR_JS_TOOLS/installed"
}

# componentize-py of the version that sdk/python names, in a virtual environment that setup-guests.sh makes.
python_tool() { sed -n 's/^COMPONENTIZE = "\(.*\)"$/\1/p' "$weir_root/sdk/python/weir/build.py"; }
python_venv() { echo "${WEIR_CACHE:-$HOME/.cache/weir}/python/$(python_tool)"; }
have_python_toolchain() { [ -x "$(python_venv)/bin/componentize-py" ]; }

# A Python that runs the SDK's tests, and makes virtual environments.
have_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
have_python_venv() { have_python && python3 -c 'import ensurepip, venv' 2>/dev/null; }

explain_other_toolchains() {
  have_c_toolchain || echo "weir: no C compiler for Wasm: guests/c and its tests need clang and lld (Debian: apt-get install clang lld), or zig (pip install ziglang)" >&2
  have_go_toolchain || echo "weir: no Go 1.24 or newer: guests/go and its tests need it (https://go.dev/dl)" >&2
  have_js_toolchain || echo "weir: no Node 20 or newer with npm: guests/js and its tests need it (https://nodejs.org)" >&2
  have_python_toolchain || echo "weir: no $(python_tool): guests/python needs it, in $(python_venv); scripts/setup-guests.sh installs it where python3 (3.10 or newer) has venv and pip (Debian: apt-get install python3-venv)" >&2
}

explain_guest_toolchain() {
  cat >&2 <<'TEXT'
No Rust toolchain here compiles for wasm32-unknown-unknown. Either of these helps:
  rustup target add wasm32-unknown-unknown
  apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22        (Debian 12, as root)
TEXT
}
