#!/bin/bash
# The work by which scripts/profiled-build.sh learns where $PROGRAM, a wakepath, spends its time: each published experiment, some
# jobs, and the replay of a recording.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$PROGRAM" reproduce all --runs 1 --seed 1000
# What most people come for, and for so long that it counts more than anything else.
sed 's/^runtime=.*/runtime=300/' workloads/iowait-rk3399.fio >"$folder/job.fio"
for job in "$folder/job.fio" workloads/tiobench-like.fio workloads/async-random.fio workloads/psd-mixed.fio; do
    "$PROGRAM" sim "$job" --machine rk3399 --runs 2 --seed 1000 \
        --policy menu@6.1 --policy menu@6.12 --policy teo@6.1 --policy teo@6.12 --policy ladder
done
zstd --quiet -d crates/trace/tests/data/arm-sched-load.trace.dat.zst -o "$folder/trace.dat"
for _ in 1 2 3; do
    "$PROGRAM" import "$folder/trace.dat" --force -o "$folder/arm.parquet"
done
"$PROGRAM" import crates/trace/tests/data/epyc7502-idle-wake-*.perf-script.txt -o "$folder/recording.parquet"
for _ in $(seq 20); do
    "$PROGRAM" replay "$folder/recording.parquet" --machine epyc-7502 \
        --policy menu@6.1 --policy menu@6.12 --policy teo@6.1 --policy teo@6.12 --policy ladder
done
