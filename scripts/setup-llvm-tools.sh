#!/bin/bash
# Installs llvm-profdata, with which scripts/profiled-build.sh turns counts into a profile, as a component of the Rust
# toolchain. Does nothing, and needs no network, when it is there or there is no rustup. Builds do without it, so that it
# cannot be had is no error.
set -euo pipefail

[ ! -x "$(rustc --print target-libdir)/../bin/llvm-profdata" ] || exit 0
command -v rustup >/dev/null || exit 0
rustup --quiet component add llvm-tools || echo "setup-llvm-tools: builds will be without a profile" >&2
