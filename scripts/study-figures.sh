#!/bin/bash
# Times a large study, its report and a comparison, in CPU time, so that a busy machine disturbs little: figure, limit,
# and whether it is met. Two cores share the runs of a study, so it takes half of its CPU time.
#
#   scripts/study-figures.sh [PROGRAM]     PROGRAM: target/release/wakepath
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-target/release/wakepath}
if [ ! -x "$program" ]; then
    echo "study-figures: there is no $program; cargo build --release --locked -p wakepath-cli" >&2
    exit 2
fi
program=$(realpath "$program")
# In memory where there is such a place: what the disk takes is none of this.
folder=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$folder"' EXIT

# A study of 4 policies x 5 workloads x $2 repeats of $3 s, as file $1.
write_study() {
    {
        printf 'name = "figures"\nmachine = "rk3399"\nrepeats = %s\n' "$2"
        for workload in "randread psync 1" "randwrite psync 1" "randrw psync 1" "randread io_uring 8" "read libaio 4"; do
            read -r rw engine depth <<<"$workload"
            printf '[[workload]]\nname = "%s at %s"\nseconds = %s\nfio_job = """\n[job]\nfilename=data\nsize=1g\nbs=4k\n' \
                "$rw" "$depth" "$3"
            printf 'direct=1\nrw=%s\nioengine=%s\niodepth=%s\n"""\n' "$rw" "$engine" "$depth"
        done
        for idle in menu@6.1 menu@6.12 teo@6.12 shallowest; do
            printf '[[policy]]\nset = "%s"\n' "$idle"
        done
    } >"$folder/$1.toml"
}

# CPU seconds of a command, over $1 cores.
seconds() {
    local cores=$1
    shift
    local TIMEFORMAT='%U %S'
    { time "$@" >"$folder/out" 2>&1; } 2>&1 | awk -v cores="$cores" '{printf "%.2f", ($1 + $2) / cores}'
}

# A line: what, value, limit, unit.
line() {
    awk -v what="$1" -v value="$2" -v limit="$3" -v unit="$4" 'BEGIN {
        printf "%-62s %7.2f %-2s  at most %s %s  %s\n", what, value, unit, limit, unit, value <= limit ? "met" : "NOT MET"
        exit value > limit
    }' || missed=1
}

missed=0
write_study large 10 30
took=$(seconds 2 "$program" study run "$folder/large.toml" --jobs 2 -o "$folder/large")
line "study run: 4 policies x 5 workloads x 10 x 30 s, two cores" "$took" 30 s
took=$(seconds 1 "$program" report "$folder/large" -o "$folder/page.html")
line "report on it" "$took" 2 s
line "    size of the page" "$(($(stat -c %s "$folder/page.html") / 1000))e-3" 3 MB
write_study many 500 0.02
"$program" study run "$folder/many.toml" -o "$folder/many" >"$folder/out"
took=$(seconds 1 "$program" compare "$folder/many")
line "compare over 10,000 results" "$took" 1 s
exit "$missed"
