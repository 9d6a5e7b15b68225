#!/bin/sh
# What `wakepath explain` costs, beside biolatency's histogram and beside bpftrace with the same events attached.
#
# usage: scripts/explain-cost.sh [FOLDER [ROUNDS [SECONDS]]]
#
# Reads a file in FOLDER (target/) past the page cache, as fast as it goes and with pauses, in turns: with nothing attached, with
# the block layer's histogram that biolatency makes, with all events of explain counted by bpftrace, and with explain. Prints
# IOPS of each round, and the loss against the same round without anything. Needs root, fio and bpftrace.
set -eu

folder=${1:-target}
rounds=${2:-5}
seconds=${3:-5}
program=${WAKEPATH:-target/release/wakepath}

for needed in fio bpftrace; do
    command -v $needed >/dev/null || { echo "$needed is not installed; scripts/setup-debian.sh installs it" >&2; exit 3; }
done
[ -x "$program" ] || { echo "no $program; build it: cargo build --release -p wakepath-cli" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "eBPF programs need root" >&2; exit 3; }

scratch=$(mktemp -d "$folder/explain-cost.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

cat >"$scratch/biolatency.bt" <<'BT'
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
    @us = hist((nsecs - @start[args->dev, args->sector]) / 1000);
    delete(@start[args->dev, args->sector]);
}
BT
# Those of the list in crates/record/src/hooks.rs that are tracepoints, as far as this kernel has them.
attached=
for event in power:cpu_idle power:cpu_frequency sched:sched_wakeup sched:sched_waking sched:sched_switch \
    sched:sched_wake_idle_without_ipi timer:hrtimer_expire_entry timer:timer_expire_entry block:block_bio_queue \
    block:block_getrq block:block_rq_insert block:block_rq_merge block:block_split block:block_bio_remap \
    irq:irq_handler_entry irq:softirq_entry irq_vectors:call_function_single_entry irq_vectors:reschedule_entry \
    ipi:ipi_send_cpu; do
    [ -d "/sys/kernel/tracing/events/$(echo $event | tr : /)" ] && attached="$attached${attached:+, }tracepoint:$event"
done
{
    cat "$scratch/biolatency.bt"
    echo "$attached { @events[probe] = count(); }"
} >"$scratch/same-events.bt"

# load PAUSE_US: reads a second of a job with such pauses.
load() {
    fio --name=load --filename="$scratch/data" --size=256m --rw=randread --bs=4k --direct=1 --ioengine=psync \
        --thinktime="$1" --time_based --runtime="$seconds" --randrepeat=0 --output-format=terse --terse-version=3 |
        cut -d ';' -f 8
}

# beside TOOL PAUSE_US: the same while a tool watches.
beside() {
    case $1 in
    nothing) load "$2"; return ;;
    biolatency) bpftrace "$scratch/biolatency.bt" >/dev/null 2>&1 & ;;
    same-events) bpftrace "$scratch/same-events.bt" >/dev/null 2>&1 & ;;
    explain) "$program" explain --duration 1h --format json >/dev/null 2>&1 & ;;
    esac
    watcher=$!
    sleep 3
    kill -0 $watcher 2>/dev/null || { echo "$1 did not start" >&2; exit 1; }
    load "$2"
    kill -INT $watcher
    wait $watcher || true
}

fio --name=fill --filename="$scratch/data" --size=256m --rw=write --bs=1m --output=/dev/null
for pause in 0 200; do
    echo "reads of 4 KiB one at a time, $pause us between them; IOPS, and loss against the same round with nothing attached:"
    : >"$scratch/all"
    for round in $(seq "$rounds"); do
        for tool in nothing biolatency same-events explain; do
            echo "$round $tool $(beside $tool $pause)" >>"$scratch/all"
        done
    done
    awk '
        $2 == "nothing" { bare[$1] = $3 }
        { if (!($2 in sum)) order[++tools] = $2; sum[$2] += $3; rounds[$2]++
          loss = 100 * (1 - $3 / bare[$1]); losses[$2] += loss; squares[$2] += loss * loss }
        END {
            for (i = 1; i <= tools; i++) {
                tool = order[i]; n = rounds[tool]; mean = losses[tool] / n
                variance = n > 1 ? (squares[tool] - n * mean * mean) / (n - 1) : 0
                printf "  %-12s %9.0f IOPS  %6.2f %% lost, standard error %.2f\n", tool, sum[tool] / n, mean,
                    sqrt(variance > 0 ? variance / n : 0)
            }
        }' "$scratch/all"
done
