# The x86 guest: wakepath records while fio reads and writes with pauses of several lengths.
drive=/dev/nvme0n1

usage() {
    cat /sys/devices/system/cpu/cpu*/cpuidle/state*/usage | awk '{ n += $1 } END { print n }'
}

cat >/tmp/job.fio <<JOB
[global]
filename=$drive
direct=1
ioengine=psync
bs=4k
time_based
runtime=10

[reader]
rw=randread
thinktime=150

[writer]
rw=randwrite
thinktime=4ms

[seldom]
rw=randread
thinktime=30ms
JOB

usage >/out/usage-before.txt
wakepath record -o /out/fio.parquet --format json -- fio --output=/out/fio.json --output-format=json /tmp/job.fio \
    >/out/summary.json 2>/out/wakepath.txt
usage >/out/usage-after.txt
