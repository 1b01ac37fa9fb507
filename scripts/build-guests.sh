#!/usr/bin/env bash
# Builds every guest and puts it as a component into guests/out/. What has not changed is not built and not written again.
#
#   WEIR_CACHE          where compiled things are kept between runs (default: $HOME/.cache/weir)
#   WEIR_COMPONENTIZE   the native weir-componentize to use (default: built with the workspace's own cargo)
#   WEIR_JOBS           compilers at a time (default: cargo's)
set -euo pipefail
weir_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
. "$weir_root/scripts/guest-toolchain.sh"
cache="${WEIR_CACHE:-$HOME/.cache/weir}"
jobs=(${WEIR_JOBS:+-j "$WEIR_JOBS"})

select_guest_toolchain || { "$weir_root/scripts/setup-guests.sh" && select_guest_toolchain; }

# Vector instructions: the host runs them, and loops over bytes are several times as fast.
# No path of this machine gets into a component: the same sources give the same bytes.
registry="${CARGO_HOME:-$HOME/.cargo}"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="-Ctarget-feature=+simd128 --remap-path-prefix=$weir_root=/weir --remap-path-prefix=$registry=/cargo"

modules="$cache/guests-target/$guest_target/release"
(cd "$weir_root/guests" &&
  CARGO_TARGET_DIR="$cache/guests-target" "${guest_cargo[@]}" --locked --release --workspace --target "$guest_target" "${jobs[@]}")

if [ -z "${WEIR_COMPONENTIZE:-}" ]; then
  (cd "$weir_root" && cargo build --locked --release -p weir-componentize "${jobs[@]}")
  WEIR_COMPONENTIZE="${CARGO_TARGET_DIR:-$weir_root/target}/release/weir-componentize"
fi

# Every package whose library is a cdylib is a guest; a component of a guest that is gone goes too.
out="$weir_root/guests/out"
mkdir -p "$out"
declare -A wanted=()
for manifest in "$weir_root"/guests/*/Cargo.toml "$weir_root"/guests/*/*/Cargo.toml; do
  grep -q '^crate-type = \["cdylib"\]' "$manifest" || continue
  name="$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -n 1)"
  module="$modules/${name//-/_}.wasm"
  component="$out/${name//-/_}.wasm"
  wanted["$component"]=1
  if [ ! -f "$component" ] || [ "$module" -nt "$component" ] || [ "$WEIR_COMPONENTIZE" -nt "$component" ]; then
    "$WEIR_COMPONENTIZE" "$module" "$component"
    "$WEIR_COMPONENTIZE" --show "$component"
  fi
done

# Guests in C and Go, where their toolchain is; a component of one that can't be built goes.
if have_c_toolchain; then
  for makefile in "$weir_root"/guests/c/*/Makefile; do
    name="$(sed -n 's/^NAME := //p' "$makefile")"
    wanted["$out/$name.wasm"]=1
    built="$cache/guests-target/c/$name"
    make --no-print-directory -C "$(dirname "$makefile")" OUT="$built" COMPONENTIZE="$WEIR_COMPONENTIZE" "$built/$name.wasm"
    if [ "$WEIR_COMPONENTIZE" -nt "$built/$name.wasm" ]; then "$WEIR_COMPONENTIZE" "$built/$name.core.wasm" "$built/$name.wasm"; fi
    cmp -s "$built/$name.wasm" "$out/$name.wasm" || cp "$built/$name.wasm" "$out/$name.wasm"
  done
fi
if have_go_toolchain; then
  for manifest in "$weir_root"/guests/go/*/go.mod; do
    folder="$(dirname "$manifest")"
    name="$(basename "$folder" | tr - _)_go"
    wanted["$out/$name.wasm"]=1
    built="$cache/guests-target/go/$name"
    mkdir -p "$built"
    (cd "$folder" && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -buildvcs=false -ldflags="-s -w" -o "$built/new.wasm" .)
    if ! cmp -s "$built/new.wasm" "$built/core.wasm" || [ ! -f "$out/$name.wasm" ] || [ "$WEIR_COMPONENTIZE" -nt "$out/$name.wasm" ]; then
      "$WEIR_COMPONENTIZE" "$built/new.wasm" "$out/$name.wasm"
      mv "$built/new.wasm" "$built/core.wasm"
    fi
  done
fi
# A component in JavaScript differs from build to build (its engine is started at build time), so the sources say whether it is new.
if have_js_toolchain && install_js_tools "$cache"; then
  for manifest in "$weir_root"/guests/js/*/package.json; do
    folder="$(dirname "$manifest")"
    name="$(basename "$folder" | tr - _)_js"
    wanted["$out/$name.wasm"]=1
    built="$cache/guests-target/js/$name"
    mkdir -p "$built"
    (cd "$weir_root" && find "guests/js/$(basename "$folder")/src" sdk/js/{bin,src,package-lock.json} wit -type f | sort | xargs sha256sum) >"$built/sources"
    if [ ! -f "$built/$name.wasm" ] || ! cmp -s "$built/sources" "$built/sources.built"; then
      node "$weir_root/sdk/js/bin/weir-js.js" build "$folder/src/$(basename "$folder").js" -o "$built/$name.wasm"
      mv "$built/sources" "$built/sources.built"
    fi
    cmp -s "$built/$name.wasm" "$out/$name.wasm" || cp "$built/$name.wasm" "$out/$name.wasm"
  done
fi
# Those in Python take half a minute each: they are built when the SDK, the contract or their sources have changed. Their bytes differ
# from build to build.
if have_python_toolchain; then
  sdk="$weir_root/sdk/python/weir"
  for folder in "$weir_root"/guests/python/*/; do
    name="$(basename "$folder" | tr - _)"
    component="$out/${name}_python.wasm"
    wanted["$component"]=1
    built="$cache/guests-target/python/$name"
    sources="$(python_tool) $(cat "$sdk"/*.py "$weir_root"/wit/*.wit "$folder$name.py" | sha256sum)"
    if [ ! -f "$built.wasm" ] || [ "$(cat "$built.sources" 2>/dev/null)" != "$sources" ]; then
      PYTHONPATH="$weir_root/sdk/python" "$(python_venv)/bin/python" -m weir.build "$name" --path "$folder" -o "$built.wasm"
      echo "$sources" >"$built.sources"
    fi
    cmp -s "$built.wasm" "$component" || cp "$built.wasm" "$component"
  done
fi
explain_other_toolchains

for component in "$out"/*.wasm; do
  [ -n "${wanted["$component"]:-}" ] || rm -f "$component"
done
