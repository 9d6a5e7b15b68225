# The arm64 guest: trace-cmd records the menu governor among the idle states of the device tree.
load() {
    # Work of several lengths with pauses of several lengths, on both CPUs.
    for i in $(seq 60); do
        dd if=/dev/zero of=/dev/null bs=4096 count=$((i * 20)) 2>/dev/null
        usleep $((i * 700))
    done &
    for i in $(seq 400); do
        usleep 1500
    done
    wait
}

cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name >/out/states.txt
load >/dev/null 2>&1 &
trace-cmd record -q -C mono -o /out/trace.dat -e power:cpu_idle -e sched:sched_waking -e sched:sched_switch \
    -e timer sleep 4
trace-cmd report /out/trace.dat >/out/trace-cmd.txt
wait
