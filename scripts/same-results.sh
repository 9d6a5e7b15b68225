#!/bin/bash
# Compares the results of two builds of the simulator byte by byte: latencies, parts, energies, idle states, timelines.
# A change that moves code and alters no rule leaves every byte.
#
#   scripts/same-results.sh                          the base commit below and the present tree, both built here
#   scripts/same-results.sh [--quick] [OLD] NEW      programs that are there; without OLD the base commit is built
#
# --quick: 60 random cells and no study, for the minutes between two edits. Without it: 500 cells with fixed seeds, every
# built-in study, and the laboratory's studies. The folder of differing results stays, and is named.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last commit that changed results, or what the files of machines may say: power of a drive's change of state, and
# machines `like` others. Move it with the next such.
base=18e1c6706877531b7d8d8341b20f8a56894cd9a4

cells=500
if [ "${1:-}" = --quick ]; then
    cells=60
    shift
fi

folder=$(mktemp -d)
keep=no
clean() {
    if [ -d "$folder/base" ]; then git worktree remove --force "$folder/base"; fi
    if [ "$keep" = no ]; then rm -rf "$folder"; fi
}
trap clean EXIT

# Builds the program of the tree $1, by a profile that is quicker to compile than a release and gives the same results.
build() {
    echo "same-results: building $1" >&2
    (cd "$1" && CARGO_TARGET_DIR="$folder/target-$2" cargo build --profile demo --locked --quiet -p wakepath-cli)
    mv "$folder/target-$2/demo/wakepath" "$folder/wakepath-$2"
    rm -rf "$folder/target-$2"
    echo "$folder/wakepath-$2"
}

build_base() {
    git worktree add --quiet --detach "$folder/base" "$base"
    build "$folder/base" old
}

case $# in
    0)
        old=$(build_base)
        new=$(build "$PWD" new)
        ;;
    1)
        new=$(realpath "$1")
        old=$(build_base)
        ;;
    2)
        old=$(realpath "$1")
        new=$(realpath "$2")
        ;;
    *)
        echo "same-results: expected [--quick] [OLD] NEW" >&2
        exit 2
        ;;
esac

machines=(rk3399 rk3399-depth apple-m1-pro xeon-e3-1240v5 skylake-2s-server xeon-6741p intel-tbench-80t epyc-7502
    laptop ryzen-8840u hybrid-i7-1260p "$PWD"/rig/laboratory/{debian,own}-6.12.toml
    "$PWD"/rig/laboratory/own-6.12-{1000,irqtime}.toml "$PWD"/rig/laboratory/debian-{6.1,7.3}.toml)
policies=('' menu@6.1 menu@7.3 teo@6.1 teo@6.12 ladder shallowest deepest oracle 'cpu-latency[limit=20us]'
    'menu + psd[timeout=1ms]' 'teo + psd[timeout=3ms,ceiling=20us]' schedutil 'schedutil[iowait_boost=off]'
    performance powersave 'hwp-boost[value=on]' apst
    'apst[rule=legacy]' 'cpu-latency[limit=2us] + psd')
drives=(sn530 760p pm991 bc511 kbg40zns)
engines=(psync libaio io_uring)
ways=(read write randread randwrite randrw readwrite)
sizes=(4k 4k 16k 128k)

# Sets `picked` to one of the values given. A command substitution would seed RANDOM anew.
pick() {
    shift $((RANDOM % $#))
    picked=$1
}

# Writes one line of the job: the option $1 with one of the values that follow.
write_option() {
    local name=$1
    shift
    pick "$@"
    printf '%s=%s\n' "$name" "$picked"
}

# Writes job file $1 with random options.
write_job() {
    printf '[job]\nfilename=data\nsize=256m\ntime_based\nruntime=20ms\n' >"$1"
    # A redirection of functions keeps this shell, and its RANDOM.
    {
        write_option rw "${ways[@]}"
        write_option bs "${sizes[@]}"
        write_option ioengine "${engines[@]}"
        write_option iodepth 1 2 8 32
        write_option numjobs 1 1 2 6
        write_option direct 1 1 1 0
        pick '' '' 'thinktime=100us' 'thinktime=2ms' 'rate_iops=2000' 'fsync=8' 'ramp_time=5ms' 'iodepth_batch=4' 'nice=5'
        printf '%s\n' "$picked"
    } >>"$1"
}

files=(workloads/*.fio workloads/*.json)
RANDOM=31
ran=0
refused=0
different=()

# Runs the program $2 as cell $1 with the arguments that follow.
run_cell() {
    local cell=$1 program=$2
    shift 2
    "$program" sim "$@" --format json >"$cell.json" 2>"$cell.err" || echo "exit $?" >>"$cell.err"
    # Paths of the two builds' own files are no result.
    sed -i "s|$cell||g" "$cell.err"
}

for ((cell = 0; ran < cells && cell < 3 * cells; cell++)); do
    job="$folder/$cell.fio"
    write_job "$job"
    if ((RANDOM % 4 == 0)); then
        pick "${files[@]}"
        job=$picked
    fi
    arguments=("$job" --runs 1 --seconds 20ms --jobs 1 --seed $((RANDOM + 1)))
    pick "${machines[@]}"
    arguments+=(--machine "$picked")
    pick "${policies[@]}"
    arguments+=(--policy "$picked")
    pick 0 0 5ms
    arguments+=(--warm-up "$picked")
    if ((RANDOM % 3 == 0)); then
        pick "${drives[@]}"
        arguments+=(--drive "$picked")
    fi
    traces=no
    if ((RANDOM % 3 == 0)); then traces=yes; fi
    for side in old new; do
        mkdir -p "$folder/$side"
        program=$old
        if [ "$side" = new ]; then program=$new; fi
        own=("${arguments[@]}")
        if [ "$traces" = yes ]; then own+=(--perfetto "$folder/$side/$cell.pftrace" --perfetto-span 5ms); fi
        run_cell "$folder/$side/$cell" "$program" "${own[@]}"
    done
    # Not every machine has all policies and drives: a refusal is compared, and another cell is drawn.
    if grep -q '^exit' "$folder/old/$cell.err"; then refused=$((refused + 1)); else ran=$((ran + 1)); fi
    for kind in json err pftrace; do
        if [ -e "$folder/old/$cell.$kind" ] && ! cmp -s "$folder/old/$cell.$kind" "$folder/new/$cell.$kind"; then
            different+=("cell $cell, $kind: ${arguments[*]}")
        fi
    done
done
echo "same-results: $ran random cells, and $refused that are refused"
if ((ran < cells)); then
    echo "same-results: expected $cells cells that run; see $folder/old/*.err for why the others do not" >&2
    keep=yes
    exit 1
fi

if [ "$cells" -ge 500 ]; then
    refused_studies=()
    studies=(rig/laboratory/fidelity-*.toml)
    for study in crates/study/data/studies/*.toml; do
        studies+=("$(basename "$study" .toml)")
    done
    for study in "${studies[@]}"; do
        name=$(basename "$study" .toml)
        "$old" study run "$study" -o "$folder/old/study-$name" >/dev/null 2>&1 || echo refused >"$folder/old/$name.txt"
        "$new" study run "$study" -o "$folder/new/study-$name" >/dev/null 2>&1 || echo refused >"$folder/new/$name.txt"
        # result.json says when and where the study ran.
        # A study that both refuse, for it needs a machine or a file, left no folder.
        if [ -e "$folder/old/$name.txt" ] && [ -e "$folder/new/$name.txt" ]; then
            refused_studies+=("$name")
        elif ! diff -rq --exclude=result.json "$folder/old/study-$name" "$folder/new/study-$name"; then
            different+=("study $study")
        fi
        rm -rf "$folder/old/study-$name" "$folder/new/study-$name"
    done
    echo "same-results: ${#studies[@]} studies; refused by both: ${refused_studies[*]:-none}"
fi

if [ ${#different[@]} -gt 0 ]; then
    printf 'same-results: differs: %s\n' "${different[@]}" >&2
    echo "same-results: the results are in $folder" >&2
    keep=yes
    exit 1
fi
echo "same-results: the same bytes"
