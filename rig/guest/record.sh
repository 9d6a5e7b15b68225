# The x86 guest: wakepath records while fio reads and writes with pauses of several lengths.
usage() {
    cat /sys/devices/system/cpu/cpu*/cpuidle/state*/usage | awk '{ n += $1 } END { print n }'
}

# /tmp/load SECONDS OUTPUT
cat >/tmp/load <<'LOAD'
#!/bin/sh
cat >/tmp/job.fio <<JOB
[global]
filename=/dev/nvme0n1
direct=1
ioengine=psync
bs=4k
time_based
runtime=$1

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
exec fio "--output=$2" --output-format=json /tmp/job.fio
LOAD
chmod +x /tmp/load

usage >/out/usage-before.txt
wakepath record -o /out/fio.parquet --format json -- /tmp/load 10 /out/fio.json \
    >/out/summary.json 2>/out/wakepath.txt
usage >/out/usage-after.txt

# The idle states, as `wakepath replay --states` takes them.
for state in /sys/devices/system/cpu/cpu0/cpuidle/state*; do
    name=$(cat "$state/name")
    polling=0
    [ "$name" != POLL ] || polling=1
    echo "$name,$(cat "$state/latency")000,$(cat "$state/residency")000,$polling,0"
done >/out/states.csv
