# Finds a Rust toolchain that compiles for wasm32-unknown-unknown. Sourced by the scripts beside it.
#
# Two kinds do:
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

explain_guest_toolchain() {
  cat >&2 <<'TEXT'
No Rust toolchain here compiles for wasm32-unknown-unknown. Either of these helps:
  rustup target add wasm32-unknown-unknown
  apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev lld-22        (Debian 12, as root)
TEXT
}
