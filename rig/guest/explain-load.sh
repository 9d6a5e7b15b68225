# The x86 guest with --shared-vector: `wakepath explain` beside reads of an NVMe drive. Functions only; the script after it has
# the cells. Each leaves NAME.json, what was said in NAME.txt, and the kernel's counts of interrupts before and after it.

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

# The CPU of the load: one that the kernel keeps free of ticks, if any, or else the first.
load_cpu=$(sed -n 's/^\([0-9]\+\).*/\1/p' /sys/devices/system/cpu/nohz_full 2>/dev/null || true)
load_cpu=${load_cpu:-0}

# cell NAME DRIVE MORE: reads on that CPU with pauses of two lengths, explained; MORE are lines of the job. Their number is given,
# not a time: a busy host may run the guest fifty times more slowly.
cell() {
    name=$1
    cat >/tmp/job.fio <<JOB
[global]
filename=/dev/$2
direct=1
bs=4k
rw=randread
cpus_allowed=$load_cpu
norandommap
number_ios=500
runtime=120
$3

[short]
thinktime=300

[long]
thinktime=2ms
JOB
    cat /proc/interrupts >"/out/$name.before"
    wakepath explain --drive "$2" --format json -- fio --output=/tmp/fio.txt /tmp/job.fio \
        >"/out/$name.json" 2>"/out/$name.txt" || {
        cat "/out/$name.txt" /tmp/fio.txt
        exit 1
    }
    cat /proc/interrupts >"/out/$name.after"
}

queue() {
    echo "/sys/block/$1/queue"
}
