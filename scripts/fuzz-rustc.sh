#!/bin/bash
# The compiler for scripts/fuzz.sh, as Cargo's RUSTC_WORKSPACE_WRAPPER: adds coverage counters for libFuzzer to the crates of
# this workspace. Cargo keeps them apart from other builds, and takes third-party crates as the tests have compiled them.
#
#   scripts/fuzz-rustc.sh flags        prints the flags
#   scripts/fuzz-rustc.sh RUSTC ...    runs the compiler with them
#
# Cargo does not notice edits of this file: `touch crates/*/src/lib.rs` has the crates compiled again.
set -euo pipefail

flags=(--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares)
if [ "$1" = flags ]; then
    echo "${flags[*]}"
    exit
fi
case " $* " in
# Build scripts have no libFuzzer to link with, and that of wakepath-daemon uses wakepath-ebpf.
*" --crate-name build_script_build "* | *" --crate-name wakepath_ebpf "* | *" --crate-type proc-macro "*) exec "$@" ;;
*" --crate-name "*) exec "$@" "${flags[@]}" -Copt-level=1 ;;
# Questions to the compiler about itself.
*) exec "$@" ;;
esac
