#!/bin/bash
# Builds a program twice: once with counters in its code, which it fills while it does TRAINING, and again with what they
# say about where the program spends its time. That makes imports and the simulator of I/O faster and changes no
# result (docs/performance.md).
#
#   scripts/profiled-build.sh MANIFEST PROGRAM TRAINING...
#
# MANIFEST is the Cargo.toml of the package that has PROGRAM. TRAINING is a command that runs "$PROGRAM".
# The result is target/profiled/PROGRAM. Without llvm-profdata (scripts/setup-llvm-tools.sh) it is an ordinary build.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 3 ]; then
    echo "profiled-build: expected MANIFEST PROGRAM TRAINING..." >&2
    exit 2
fi
manifest=$1 program=$2
shift 2
folder=$PWD/target/profiled
host=$(rustc -vV | sed -n 's/^host: //p')
tool=$(rustc --print target-libdir)/../bin/llvm-profdata
mkdir -p "$folder"

# With these compiler flags. Naming the target keeps them away from build scripts and macros.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} $*" cargo build --quiet --release --locked --manifest-path "$manifest" --bin "$program" \
        --target "$host" --target-dir "$folder/build"
}

if [ -x "$tool" ]; then
    counts=$folder/$program.counts
    rm -rf "$counts"
    build "-Cprofile-generate=$counts"
    if ! PROGRAM=$folder/build/$host/release/$program "$@" >"$folder/$program.log" 2>&1; then
        echo "profiled-build: the training of $program failed; see $folder/$program.log" >&2
        exit 1
    fi
    profile=$folder/$program.profdata
    "$tool" merge --output "$profile" "$counts"
    rm -rf "$counts"
    # cargo builds again when the flags change, not when the file does: so its name tells what is in it.
    named=$folder/$program.$(sha256sum "$profile" | cut -c1-16).profdata
    mv "$profile" "$named"
    build "-Cprofile-use=$named"
    mv "$named" "$profile"
else
    echo "profiled-build: no llvm-profdata, so $program is built without a profile; scripts/setup-llvm-tools.sh installs it" >&2
    build
fi
install -m 755 "$folder/build/$host/release/$program" "$folder/$program"
