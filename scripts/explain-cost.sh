#!/bin/sh
# What `wakepath explain` costs, beside biolatency's histogram, and beside bpftrace and `perf trace` with the same events.
#
# usage: scripts/explain-cost.sh [FOLDER [ROUNDS [SECONDS]]]
#
# Reads a file in FOLDER (target/) past the page cache, in turns: with nothing attached, with the block layer's histogram that
# biolatency makes, with all events of explain counted by bpftrace, with all of these written out by `perf trace`, and with
# explain. Two loads: some 50,000 I/Os per second by requests side by side, and some 5,000 by pauses between single ones. Prints
# IOPS and the loss against the same round with nothing attached, medians over the rounds, and whether explain keeps its bounds:
# 8 % and 1.5 %. Where there is no `perf trace`, its rows are missing, and a line says so.
# fio has the first CPU, and whoever watches the others, both before all other work of the machine (SCHED_FIFO).
# Needs root, two CPUs, fio and bpftrace. Exit code 1: a bound is not kept; 3: something is missing.
set -eu

folder=${1:-target}
rounds=${2:-9}
seconds=${3:-4}
program=${WAKEPATH:-target/release/wakepath}

for needed in fio bpftrace; do
    command -v $needed >/dev/null || { echo "$needed is not installed; scripts/setup-debian.sh installs it" >&2; exit 3; }
done
[ -x "$program" ] || { echo "no $program; build it: cargo build --release -p wakepath-cli" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "eBPF programs need root" >&2; exit 3; }

# bpftrace and this script look there; where nobody has mounted it, it is mounted for this script alone.
if [ ! -d /sys/kernel/tracing/events ]; then
    exec unshare -m sh -c 'mount -t tracefs tracefs /sys/kernel/tracing && mount -t debugfs debugfs /sys/kernel/debug || exit 3
        [ -d /sys/kernel/tracing/events ] || { echo "this kernel has no trace events" >&2; exit 3; }
        exec sh "$0" "$@"' "$0" "$@"
fi

scratch=$(mktemp -d "$folder/explain-cost.XXXXXX")
watcher=
trap '[ -z "$watcher" ] || kill -KILL $watcher 2>/dev/null || true; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

cat >"$scratch/biolatency.bt" <<'BT'
BEGIN { printf("ready\n"); }
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
    @us = hist((nsecs - @start[args->dev, args->sector]) / 1000);
    delete(@start[args->dev, args->sector]);
}
BT
# The tracepoints of the list in crates/record/src/hooks.rs, as far as this kernel has them.
attached= traced=
for event in power:cpu_idle power:cpu_frequency sched:sched_wakeup sched:sched_waking sched:sched_switch \
    sched:sched_wake_idle_without_ipi timer:hrtimer_expire_entry timer:timer_expire_entry block:block_bio_queue \
    block:block_getrq block:block_rq_insert block:block_rq_merge block:block_split block:block_bio_remap \
    irq:irq_handler_entry irq:softirq_entry irq_vectors:call_function_single_entry irq_vectors:reschedule_entry \
    ipi:ipi_send_cpu; do
    [ -d "/sys/kernel/tracing/events/$(echo $event | tr : /)" ] || continue
    attached="$attached${attached:+, }tracepoint:$event"
    traced="$traced${traced:+,}$event"
done
tools='nothing biolatency same-events perf-trace explain'
if ! perf trace -a -e "$traced" -o /dev/null true >"$scratch/said" 2>&1; then
    echo "no \`perf trace\` beside the others: $(head -n 1 "$scratch/said")"
    tools='nothing biolatency same-events explain'
fi
{
    cat "$scratch/biolatency.bt"
    echo "$attached { @events = count(); }"
} >"$scratch/same-events.bt"

# load NAME: IOPS of reads side by side (`many`), or one at a time with pauses (`few`).
load() {
    case $1 in
    many) set -- --ioengine=libaio --iodepth=8 --iodepth_batch_complete_max=1 ;;
    few) set -- --ioengine=psync --thinktime=150 ;;
    esac
    taskset -c 0 chrt -f 2 fio --name=load --filename="$scratch/data" --size=256m --rw=randread --bs=4k --direct=1 "$@" --time_based \
        --runtime="$seconds" --randrepeat=0 --output-format=terse --terse-version=3 | cut -d ';' -f 8
}

# watch COMMAND...: starts it beside the load, and waits until it watches.
watch() {
    taskset -c 1-$(($(nproc --all) - 1)) chrt -f 1 "$@" >"$scratch/said" 2>&1 &
    watcher=$!
    for wait in $(seq 20); do
        sleep 0.5
        kill -0 $watcher 2>/dev/null || break
        # bpftrace says when all is attached. explain and perf take no second to.
        if grep -q ^ready "$scratch/said" || { [ "$1" != bpftrace ] && [ $wait -ge 4 ]; }; then
            return
        fi
    done
    echo "$1 did not start: $(cat "$scratch/said")" >&2
    return 1
}

# Ends what was started by `watch`.
end_watch() {
    kill -INT $watcher
    for wait in $(seq 20); do
        kill -0 $watcher 2>/dev/null || break
        sleep 0.5
    done
    kill -KILL $watcher 2>/dev/null && echo "a watcher did not end" >&2
    wait $watcher || true
    watcher=
}

# measure ROUND TOOL LOAD: notes the load's IOPS while a tool watches.
measure() {
    case $2 in
    nothing) ;;
    explain) watch "$program" explain --duration 1h --format json ;;
    perf-trace) watch perf trace -a -e "$traced" -o /dev/null ;;
    *) watch bpftrace "$scratch/$2.bt" ;;
    esac
    iops=$(load "$3")
    [ -z "$watcher" ] || end_watch
    echo "$1 $2 $iops" >>"$scratch/all.$3"
    if [ "$2" = same-events ]; then
        sed -n 's/^@events: //p' "$scratch/said" >>"$scratch/events.$3"
    fi
    if [ "$2" = explain ] && grep -q "events found no room" "$scratch/said"; then
        echo "explain lost events, so that its cost is not the whole one" >&2
    fi
}

# summarize LOAD BOUND: medians over the rounds of each tool; 1: explain lost more than the bound, in per cent.
summarize() {
    sort -k 2,2 -k 3,3n "$scratch/all.$1" | awk -v bound="$2" -v seconds="$seconds" -v names="$tools" '
        function median(values, n) { return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2 }
        function sort_losses(tool, n,   i, j, held) {
            for (i = 2; i <= n; i++) {
                held = loss[tool, i]
                for (j = i - 1; j > 0 && loss[tool, j] > held; j--) loss[tool, j + 1] = loss[tool, j]
                loss[tool, j + 1] = held
            }
        }
        { iops[$2, $1] = $3; ranked[$2, ++count[$2]] = $3 }
        END {
            number = split(names, tools, " ")
            for (t = 1; t <= number; t++) {
                tool = tools[t]; n = count[tool]
                for (i = 1; i <= n; i++) {
                    values[i] = ranked[tool, i]
                    loss[tool, i] = 100 * (1 - iops[tool, i] / iops["nothing", i])
                }
                printf "  %-12s %8.0f IOPS", tool, median(values, n)
                if (tool != "nothing") {
                    sort_losses(tool, n)
                    for (i = 1; i <= n; i++) values[i] = loss[tool, i]
                    lost = median(values, n)
                    printf "  %6.2f %% lost (%.2f to %.2f)", lost, loss[tool, int((n + 3) / 4)], loss[tool, n - int((n - 1) / 4)]
                }
                if (tool == "explain") printf "   at most %s %%: %s", bound, lost <= bound ? "met" : "NOT MET"
                print ""
            }
            exit lost > bound
        }'
}

fio --name=fill --filename="$scratch/data" --size=256m --rw=write --bs=1m --output=/dev/null
status=0
for name in many few; do
    case $name in
    many) bound=8 what="reads of 4 KiB, eight side by side" ;;
    few) bound=1.5 what="reads of 4 KiB one at a time, pauses of 150 us" ;;
    esac
    for round in $(seq "$rounds"); do
        for tool in $tools; do
            measure "$round" $tool $name
        done
    done
    events=$(awk -v seconds="$seconds" '{ sum += $1 } END { printf "%.0f", sum / NR / seconds }' "$scratch/events.$name")
    echo "$what; $events events per second; medians of $rounds rounds, and half of all rounds:"
    summarize $name $bound || status=1
done
exit $status
