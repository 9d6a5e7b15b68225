# The arm64 guest with --shared-vector, after explain-load.sh: trace-cmd records reads of NVMe drives, with pauses of several lengths.

# reads DRIVE: reads one after the other on CPU 0, then a pause. No fio: Debian's for arm64 needs the libraries of Ceph.
cat >/tmp/reads <<'READS'
for i in $(seq 150); do
    taskset 1 dd if="/dev/$1" of=/dev/null bs=4096 count=6 skip=$((i * 6)) iflag=direct 2>/dev/null
    usleep $((i % 5 * 1000 + 100))
done
READS

# trace NAME DRIVE: leaves NAME.dat, and the kernel's counts of interrupts before and after.
trace() {
    cat /proc/interrupts >"/out/$1.before"
    trace-cmd record -q -C mono -o "/out/$1.dat" -e power:cpu_idle -e block -e irq -e ipi -e sched:sched_waking \
        -e sched:sched_wakeup -e sched:sched_switch -e sched:sched_wake_idle_without_ipi -e timer \
        sh /tmp/reads "$2"
    cat /proc/interrupts >"/out/$1.after"
}

cat /sys/devices/system/cpu/cpu0/cpuidle/state*/name >/out/states.txt
uname -rm >/out/kernel.txt
trace own-queues "$(drive rig)"
shared=$(drive shared)
irq=$(sed -n "s/^ *\([0-9]*\):.* ${shared%n1}q0.*/\1/p" /proc/interrupts)
echo 2 >"/proc/irq/$irq/smp_affinity"
echo 0 >"$(queue "$shared")/rq_affinity"
trace other-cpu "$shared"
cat "/proc/irq/$irq/effective_affinity_list" >/out/interrupted-cpu.txt
