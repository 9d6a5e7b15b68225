#!/bin/bash
# Fuzzes every parser for FUZZ_SECONDS (default 60) each, FUZZ_JOBS (default 2) at a time, from FUZZ_SEED on (default 0:
# another one each time).
#
#   scripts/fuzz.sh               all targets of fuzz/Cargo.toml
#   scripts/fuzz.sh fio_job ...   these targets
#
# FUZZ_COVERAGE=all (default)  every crate counts the coverage that guides libFuzzer
# FUZZ_COVERAGE=own            only this workspace's crates count, as debug builds: `make test`, which has compiled the others
#
# The layout is cargo-fuzz's, and `cargo +nightly fuzz run TARGET` works in this repository. This script does not
# need it: the flags below are those by which cargo-fuzz has the compiler count coverage for libFuzzer, and they
# are stable. What cargo-fuzz needs a nightly compiler for is the address sanitizer, which has nothing to find in
# crates that deny unsafe code. (With only a stable compiler, RUSTC_BOOTSTRAP=1 gets it through, too.)
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-60}
at_once=${FUZZ_JOBS:-2}
seed=${FUZZ_SEED:-0}
logs=$PWD/target/test-logs
mkdir -p "$logs"

all=$(sed -n '/^\[\[bin\]\]/,/^path/s/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml)
targets=${*:-$all}
for target in $targets; do
    if ! grep -qx "$target" <<<"$all"; then
        echo "fuzz: no target '$target'; there are:" $all >&2
        exit 2
    fi
done

case ${FUZZ_COVERAGE:-all} in
all)
    host=$(rustc -vV | sed -n 's/^host: //p')
    programs=target/fuzz/$host/fuzz
    # Naming the target keeps the flags away from build scripts, which have no libFuzzer to link with.
    RUSTFLAGS="$(scripts/fuzz-rustc.sh flags)" \
        cargo build --quiet --profile fuzz --locked -p wakepath-fuzz --target-dir target/fuzz --target "$host"
    ;;
own)
    programs=target/debug
    # Features of third-party crates are those of the tests only where all packages are selected, as there.
    mapfile -t binaries < <(printf -- '--bin\n%s\n' $targets)
    CARGO_INCREMENTAL=0 RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz-rustc.sh \
        cargo build --quiet --locked --workspace "${binaries[@]}"
    ;;
*)
    echo "fuzz: unknown FUZZ_COVERAGE '$FUZZ_COVERAGE'; expected all or own" >&2
    exit 2
    ;;
esac

fuzz_one() {
    local target=$1 seeds=() extra= longest=16384 corpus=fuzz/corpus/$1 artifacts=fuzz/artifacts/$1
    # Inputs that the repository has anyway.
    case $target in
    fio_job) extra=workloads ;;
    machine_toml) extra=crates/hardware/data/machines ;;
    id_ctrl) extra=crates/hardware/tests/nvme_cli ;;
    study_file) extra=crates/study/data/studies ;;
    # Real traces are longer.
    trace_dat | perf_data | recording) longest=32768 ;;
    esac
    for folder in "fuzz/seeds/$target" $extra; do
        [ -d "$folder" ] && seeds+=("$folder")
    done
    mkdir -p "$corpus" "$artifacts"
    # -timeout: 10 s on one input is a fault of its own; -rss_limit_mb likewise.
    if RUST_BACKTRACE=0 "$programs/$target" "$corpus" "${seeds[@]}" "-artifact_prefix=$artifacts/" \
        -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=$longest -print_final_stats=1 \
        >"$logs/fuzz-$target.log" 2>&1; then
        echo "fuzz $target: ok, $(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/fuzz-$target.log") inputs"
    else
        echo "fuzz $target: FAILED, see $logs/fuzz-$target.log"
        tail -n 15 "$logs/fuzz-$target.log" | sed 's/^/    /'
        return 1
    fi
}

failed=0
running=0
for target in $targets; do
    if [ "$running" -ge "$at_once" ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz_one "$target" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit "$failed"
