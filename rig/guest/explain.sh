# The x86 guest with --shared-vector: `wakepath explain` beside the ways that an NVMe request can take through a kernel, one
# after the other. Each cell leaves NAME.json, and what was said in NAME.txt.

# The namespace of the drive with this serial number; drives come up in any order.
drive() {
    for controller in /sys/class/nvme/nvme*; do
        if grep -q "^$1 *$" "$controller/serial"; then
            basename "$controller"/nvme*n1 | sed 's/c[0-9]*n/n/'
            return
        fi
    done
    echo "no drive with serial $1" >&2
    exit 1
}

# cell NAME DRIVE MORE: reads on CPU 0 with pauses of two lengths, explained; MORE are lines of the job.
cell() {
    name=$1
    cat >/tmp/job.fio <<JOB
[global]
filename=/dev/$2
direct=1
bs=4k
rw=randread
cpus_allowed=0
norandommap
time_based
runtime=3
$3

[short]
thinktime=300

[long]
thinktime=2ms
JOB
    wakepath explain --drive "$2" --format json -- fio --output=/tmp/fio.txt /tmp/job.fio \
        >"/out/$name.json" 2>"/out/$name.txt" || {
        cat "/out/$name.txt" /tmp/fio.txt
        exit 1
    }
}

queue() {
    echo "/sys/block/$1/queue"
}

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
cat "/proc/irq/$irq/effective_affinity_list" >/out/interrupted-cpu.txt
for affinity in 0 1 2; do
    echo $affinity >"$(queue "$shared")/rq_affinity"
    cell "rq-affinity-$affinity" "$shared"
done

# The other CPU goes while the load runs, and comes back.
(
    sleep 1
    echo 0 >/sys/devices/system/cpu/cpu1/online
    sleep 2
    echo 1 >/sys/devices/system/cpu/cpu1/online
) &
cell cpu-offline "$own" runtime=4
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

# No idle states: the kernel halts, and calls that state 1.
if rmmod wakepath_idle; then
    cell no-cpuidle "$(drive rig)"
else
    echo "no-cpuidle: the idle driver cannot be unloaded" >>/out/notes.txt
fi
