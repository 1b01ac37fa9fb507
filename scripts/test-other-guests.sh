#!/usr/bin/env bash
# Tests of the SDKs for C, Go, JavaScript and Python and of the guests made with them, natively. Without Go, Node or Python theirs are left out, and it
# says so.
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
if have_js_toolchain; then
  for manifest in "$weir_root"/sdk/js/package.json "$weir_root"/guests/js/*/package.json; do
    (cd "$(dirname "$manifest")" && node --test test/*.test.js)
  done
fi
if have_python; then
  make --no-print-directory -C "$weir_root/sdk/python" test
  for folder in "$weir_root"/guests/python/*/; do
    (cd "$folder" && PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$weir_root/sdk/python" python3 -W error -m unittest)
  done
fi

# Each template as `weir new` fills it in, with its SDK beside it.
for template in "$weir_root"/sdk/go/templates/* "$weir_root"/sdk/c/templates/*; do
  kind="$(basename "$template")" sdk="$(dirname "$(dirname "$template")")"
  project="$cache/guests-target/templates/$(basename "$sdk")-$kind"
  rm -rf "$project"
  mkdir -p "$(dirname "$project")"
  cp -r "$template" "$project"
  find "$project" -type f -exec sed -i "s/{{name}}/my-$kind/g; s/{{name_snake}}/my_$kind/g; s/{{Name}}/My${kind^}/g" {} +
  cp -r "$sdk" "$project/weir-sdk"
  rm -r "$project/weir-sdk/templates"
  if [ "$(basename "$sdk")" = c ]; then
    make --no-print-directory -C "$project" test
  elif have_go_toolchain; then
    (cd "$project" && go vet . && go test .)
  fi
done
explain_other_toolchains
