# The x86 guest: reads in bursts, recorded, while the scripts after this one change what is in force.
drive=/dev/nvme0n1

# 800 reads a second, as far as the guest manages, and 300 ms of nothing after every 100 of them.
cat >/tmp/bursts.fio <<JOB
[bursts]
filename=$drive
direct=1
ioengine=psync
bs=4k
rw=randread
time_based
runtime=300
rate_iops=800
rate_ignore_thinktime=1
thinktime=300ms
thinktime_blocks=100
JOB

reads() {
    awk '{ print $1 }' "/sys/block/${drive#/dev/}/stat"
}

# Waits until so many more have been done. A busy host slows guests down: how many there are counts, not the time.
read_more() {
    until=$(($(reads) + $1))
    until [ "$(reads)" -ge $until ]; do
        kill -0 $load
        usleep 100000
    done
}

start() {
    wakepath record -o /out/psd.parquet >/out/summary.txt 2>&1 &
    recorder=$!
    # The file is made when everything is being watched.
    until [ -e /out/psd.parquet ]; do
        kill -0 $recorder
        usleep 100000
    done
    fio --output=/dev/null /tmp/bursts.fio &
    load=$!
    read_more 200
}

# Something begins, and lasts until the next call: its name and the time, in seconds. "-": something is being changed.
phase() {
    echo "$1 $(cut -d ' ' -f 1 /proc/uptime)" >>/out/phases.txt
}

finish() {
    phase -
    kill -INT $load $recorder
    wait $recorder
}
