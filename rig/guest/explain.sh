# After explain-load.sh: the ways that an NVMe request can take through a kernel, one after the other.

load_nvme() {
    rmmod nvme
    insmod /rig/modules/nvme.ko "$@"
    for wait in 1 2 3 4 5 6 7 8 9 10; do
        sleep 1
        [ "$(ls -d /sys/block/nvme*n1 2>/dev/null | wc -l)" = 2 ] && return
    done
    echo "the drives did not come back"
    exit 1
}

own=$(drive rig)
shared=$(drive shared)

# A queue and a vector for each CPU; the load is in a cgroup of its own.
mkdir -p /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/load
echo $$ >/sys/fs/cgroup/load/cgroup.procs
cell own-queues "$own"
echo $$ >/sys/fs/cgroup/cgroup.procs

# One queue, with the vector of the controller's own commands, interrupting CPU 1; the load runs on CPU 0.
irq=$(grep -l . /sys/kernel/irq/*/actions | while read -r file; do
    grep -q "$(echo "$shared" | sed 's/n1$//')q" "$file" && basename "$(dirname "$file")"
done | head -n 1)
echo 2 >"/proc/irq/$irq/smp_affinity" 2>/dev/null || echo "irq $irq cannot be moved" >>/out/notes.txt
for affinity in 0 1 2; do
    echo $affinity >"$(queue "$shared")/rq_affinity"
    cell "rq-affinity-$affinity" "$shared"
done
# A vector moves when it next interrupts.
cat "/proc/irq/$irq/effective_affinity_list" >/out/interrupted-cpu.txt
# Whether CPUs share the last cache by the scheduler's domains, which decide where rq_affinity 1 completes. They are shown when asked for.
echo Y >/sys/kernel/debug/sched/verbose
cat /sys/kernel/debug/sched/domains/cpu0/domain*/flags >/out/domains.txt

reads_of() {
    sed 's/^ *\([0-9]*\).*/\1/' "/sys/block/$1/stat"
}

# wait_for_reads DRIVE NUMBER: until so many more reads completed, at most two minutes.
wait_for_reads() {
    until_read=$(($(reads_of "$1") + $2))
    for second in $(seq 120); do
        [ "$(reads_of "$1")" -lt $until_read ] || return 0
        sleep 1
    done
    return 1
}

# The other CPU goes while the load runs, and comes back before the load's 4000 reads are over. Notes: CPUs online meanwhile, reads
# meanwhile, CPUs online afterwards.
(
    wait_for_reads "$own" 100 || true
    echo 0 >/sys/devices/system/cpu/cpu1/online
    before=$(reads_of "$own")
    cat /sys/devices/system/cpu/online
    wait_for_reads "$own" 200 || true
    echo $(($(reads_of "$own") - before))
    echo 1 >/sys/devices/system/cpu/cpu1/online
    cat /sys/devices/system/cpu/online
) >/out/cpu-offline.notes &
cell cpu-offline "$own" number_ios=2000
wait

# Queues without interrupts. Older kernels have none for psync.
load_nvme poll_queues=1
own=$(drive rig)
if [ "$(cat "$(queue "$own")/io_poll")" = 1 ]; then
    cell polled "$own" 'ioengine=io_uring
hipri'
else
    echo "polled: the drive has no polled queues" >>/out/notes.txt
fi

# Handlers in threads of their own.
load_nvme poll_queues=0 use_threaded_interrupts=1
cell threaded "$(drive rig)"
