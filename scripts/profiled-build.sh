#!/bin/bash
# Builds a program twice: once with counters in its code, which it fills while it does TRAINING, and again with what they
# say about where the program spends its time. That makes imports and the simulator of I/O faster and changes no
# result (docs/background/performance.md).
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

# Into a folder of target/profiled, with these compiler flags. Naming the target keeps them away from build scripts and macros.
build() {
    RUSTFLAGS="${RUSTFLAGS:-} ${2:-}" cargo build --quiet --release --locked --manifest-path "$manifest" --bin "$program" \
        --target "$host" --target-dir "$folder/$1"
    built=$folder/$1/$host/release/$program
}

if [ -x "$tool" ]; then
    counts=$folder/$program.counts profile=$folder/$program.profdata
    rm -rf "$counts"
    build counting "-Cprofile-generate=$counts"
    if ! PROGRAM=$built "$@" >"$folder/$program.log" 2>&1; then
        echo "profiled-build: the training of $program failed; see $folder/$program.log" >&2
        exit 1
    fi
    "$tool" merge --output "$profile.new" "$counts"
    rm -rf "$counts"
    # cargo does not notice that a profile has changed.
    cmp --quiet "$profile.new" "$profile" || rm -rf "${folder:?}/build-$program"
    mv "$profile.new" "$profile"
    build "build-$program" "-Cprofile-use=$profile"
else
    echo "profiled-build: no llvm-profdata, so $program is built without a profile; scripts/setup-llvm-tools.sh installs it" >&2
    build ordinary
fi
install -m 755 "$built" "$folder/$program"
