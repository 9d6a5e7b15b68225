# The laboratory's guest: what each run needs. rig/lab.py puts the runs behind it.
workers=$(cat /rig/workers)
drive_cpu=$(cat /rig/drive-cpu)
drives=/sys/module/wakepath_drive/parameters
idle=/sys/module/wakepath_idle/parameters
cpus=/sys/devices/system/cpu
daemon=
mkdir -p /out/runs

# raid COUNT CHUNK_BYTES: the drives as /dev/md_drives, striped by the kernel's RAID0.
raid() {
    echo md_drives >/sys/module/md_mod/parameters/new_array
    array=/sys/block/md_drives/md
    echo none >$array/metadata_version
    echo raid0 >$array/level
    echo $1 >$array/raid_disks
    echo $2 >$array/chunk_size
    drive=0
    while [ $drive -lt $1 ]; do
        cat /sys/block/drive$drive/dev >$array/new_dev
        echo $(($(cat /sys/block/drive$drive/size) / 2)) >$array/dev-drive$drive/size
        echo $drive >$array/dev-drive$drive/slot
        drive=$((drive + 1))
    done
    echo active >$array/array_state
    [ -b /dev/md_drives ]
}

# file_system KIND MIB: an ext4 or xfs of this size on the drive at /mnt, with files whose blocks are written. busybox has a mke2fs, too,
# which makes no ext4. Tables are written now, so that nobody writes them later.
file_system() {
    case $1 in
    ext4) /usr/bin/mke2fs -q -t ext4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/drive0 $(($2 * 1024)) ;;
    xfs) mkfs.xfs -q -K -d size=$2m /dev/drive0 ;;
    esac
    mkdir -p /mnt
    mount -t $1 /dev/drive0 /mnt
    for file in 0 1 2 3; do dd if=/dev/zero of=/mnt/file$file bs=1M count=16 2>/dev/null; done
    sync
}

# As the simulator begins: the governor knows nothing, all states are on, nobody asks for a latency, clocks are slow.
fresh() {
    for other in $(cat $cpus/cpuidle/available_governors); do
        [ "$other" = "$1" ] || echo "$other" >$cpus/cpuidle/current_governor
    done
    exec 3>&-
    if [ -n "$daemon" ]; then
        kill -TERM $daemon
        wait $daemon
        daemon=
    fi
    ! grep -q ^wakepath_psd /proc/modules || rmmod wakepath_psd
    ! grep -q ^wakepath_spin /proc/modules || rmmod wakepath_spin
    echo "$1" >$cpus/cpuidle/current_governor
    [ "$(cat $cpus/cpuidle/current_governor)" = "$1" ]
    for cpu in $workers; do
        for state in $cpus/cpu$cpu/cpuidle/state*; do echo 0 >$state/disable; done
        echo 0 >$cpus/cpu$cpu/power/pm_qos_resume_latency_us
        clock=$cpus/cpu$cpu/cpufreq
        echo performance >$clock/scaling_governor
        cat $clock/cpuinfo_min_freq >$clock/scaling_max_freq
    done
    echo 0 >/sys/kernel/debug/wakepath_cpufreq
    for cpu in $workers; do
        clock=$cpus/cpu$cpu/cpufreq
        echo "$2" >$clock/scaling_governor
        cat $clock/cpuinfo_max_freq >$clock/scaling_max_freq
    done
}

# Leases by the module of docs/guides/psd.md: ms after the last completion, and the longest exit latency in us.
leases() {
    insmod /rig/psd.ko timeout_ms=$1 ceiling_us=$2
}

# Has the first CPU, on which a program spins without pauses, let others run: every so many ns.
spins() {
    insmod /rig/spin.ko interval_ns=$1
}

# Switches idle states off by name.
disable() {
    for name in "$@"; do
        for cpu in $workers; do
            for state in $cpus/cpu$cpu/cpuidle/state*; do
                [ "$(cat $state/name)" != "$name" ] || echo 1 >$state/disable
            done
        done
    done
}

# Holds a request for the whole system: us as eight hexadecimal digits.
limit() {
    exec 3>/dev/cpu_dma_latency
    echo "$1" >&3
}

# Of the drives: how many, and their idle times, entries and exits in us with commas between.
power_states() {
    echo 0 >$drives/states
    if [ "$1" -gt 0 ]; then
        echo "$2" >$drives/state_idle_us
        echo "$3" >$drives/state_entry_us
        echo "$4" >$drives/state_exit_us
        echo "$1" >$drives/states
    fi
}

# How long a turn of rt-app's loop takes, in ns: with a guess of 100, 10 ms stand for 100,000 turns.
calibrate() {
    mkdir /tmp/calibration
    log='"logdir": "/tmp/calibration", "log_basename": "c", "log_size": 1'
    phases='"loop": 2, "phases": {"p": {"loop": 1, "run": 10000}}'
    echo "{\"global\": {\"calibration\": 100, $log}, \"tasks\": {\"t\": {$phases}}}" >/tmp/calibration/file
    rt-app /tmp/calibration/file >/tmp/calibration/out 2>&1
    turn=$(awk '$1 == 0 { us = $3 } END { print int(us / 100 + 0.5) }' /tmp/calibration/c-t-0.log)
    echo "lab: a turn of rt-app's loop takes $turn ns"
    [ "$turn" -gt 0 ]
}

# calibrated NUMBER: an rt-app file is given what its loop takes here.
calibrated() {
    mkdir /out/runs/$1.rt-app
    sed -i "s/\"CPU0\"/$turn/" /rig/jobs/$1
}

# Whether the program has begun: fio with a request, rt-app with its logs.
begun() {
    if [ -d /out/runs/$1.rt-app ]; then
        set -- /out/runs/$1.rt-app/*.log
        [ -e "$1" ]
    else
        read -r _ first _ <$drives/window
        [ "$first" != 0 ]
    fi
}

# window WATCHED_US [now]: counters are noted 30 ms after the first request, of short runs sooner, and so much later once more.
window() {
    begin=$(($1 / 8))
    [ $begin -lt 30000 ] || begin=30000
    echo "$((begin * 1000)) $(($1 * 1000)) ${2:-}" >$drives/window
}

# On the CPU of the drives, which the others do not see: what is to be done while the program runs.
watch() {
    # By the shell's own commands. A new process has its CPU for a ms, and CPUs take turns: fio, which measures how long a sleep of
    # 1 us lasts as it starts, would come to longer ones, and spin for its pauses from then on.
    until begun $1; do read -r -t 0.01 _ <&4 || true; done
    # rt-app is not known by its requests.
    [ ! -d /out/runs/$1.rt-app ] || window $2 now
    if [ -e /tmp/recorder ]; then
        # The recorder's own work would take time from the job: its buffers hold the events until the job is over.
        kill -STOP $(cat /tmp/recorder)
        usleep $((30000 + $2 + $2 / 4))
        kill -CONT $(cat /tmp/recorder)
    fi
}

# Events of the kernel, if rig/lab.py was asked for them: `tracing on`, and `tracing off FILE`.
tracing() {
    [ -e /rig/events ] || return 0
    trace=/sys/kernel/tracing
    if [ ! -d $trace/events ]; then
        echo "lab: this kernel has no trace events; Debian's have, and those of rig/own_kernel.py --trace"
        return 1
    fi
    if [ "$1" = on ]; then
        echo 65536 >$trace/buffer_size_kb
        echo mono >$trace/trace_clock
        for event in $(cat /rig/events); do echo 1 >$trace/events/$event/enable; done
        echo >$trace/trace
        echo 1 >$trace/tracing_on
    else
        echo 0 >$trace/tracing_on
        cat $trace/trace >$2
        echo 0 >$trace/events/enable
    fi
}

# measure NUMBER WATCHED_US PROGRAM [ARGUMENT...]: the recorder, if any, is on the drives' CPU, and the program on the others.
measure() {
    number=$1 watched=$2
    shift 2
    if [ -e /rig/record ]; then
        set -- sh -c 'echo $$ >/tmp/recorder; exec "$@"' recorder \
            taskset -c $drive_cpu wakepath record -o /out/runs/$number.parquet --buffer 32768 $(cat /rig/record) --format json -- \
            taskset -c $(echo $workers | tr ' ' ,) "$@"
    fi
    # A pipe into which nobody writes: reading it with a time limit is a sleep.
    [ -e /tmp/never ] || mkfifo /tmp/never
    exec 4<>/tmp/never
    echo 0 >$drives/counts
    [ -d /out/runs/$number.rt-app ] || window $watched
    watcher=
    if [ -d /out/runs/$number.rt-app ] || [ -e /rig/record ]; then
        taskset -c $drive_cpu sh -c ". /rig/laboratory.sh; watch $number $watched" 3>&- &
        watcher=$!
    fi
    echo "lab: run $number" >/dev/console
    tracing on
    failed=
    # Nobody but this shell may hold the request of `limit`: `timeout` leaves a process behind that goes on for a second.
    "$@" 3>&- >/out/runs/$number.out 2>/out/runs/$number.err || failed="status $?"
    # Without any request the watcher would wait for ever.
    begun $number || failed=${failed:-"no request to the drive"}
    if [ -n "$failed" ]; then
        echo "$failed" >/out/runs/$number.failed
        [ -z "$watcher" ] || kill $watcher || true
    fi
    exec 4>&-
    [ -z "$watcher" ] || wait $watcher || [ -n "$failed" ]
    # The kernel frees the recorder's buffers some time later, which takes a CPU for 25 ms: not in the next run.
    [ ! -e /rig/record ] || sleep 5
    cat $drives/window $idle/noted >/out/runs/$number.watched
    tracing off /out/runs/$number.trace
    cat $drives/counts >/out/runs/$number.drive
    # What explanations of a recording are held to: each request with the drive's own times.
    [ ! -e /sys/kernel/debug/wakepath_drive ] || cat /sys/kernel/debug/wakepath_drive >/out/runs/$number.requests
    cat /sys/kernel/debug/wakepath_cpufreq >/out/runs/$number.frequency
}
