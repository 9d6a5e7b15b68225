# Records which requests the kernel makes for the reads of each file in /rig/cases (rig/read_ahead.py makes them).
tracing=/sys/kernel/tracing
queue=/sys/block/nvme0n1/queue
echo 0 >$tracing/tracing_on
echo 8000 >$tracing/buffer_size_kb
echo 1 >$tracing/events/block/block_bio_queue/enable
echo "DEVICE $(($(cat /sys/block/nvme0n1/size) / 8)) $(($(cat $queue/max_sectors_kb) / 4))" >/out/trace.txt
for case in /rig/cases/*; do
    name=${case##*/}
    hint=${name##*-}
    ahead=${name%-*}
    ahead=${ahead#*-}
    echo "$ahead" >$queue/read_ahead_kb
    echo >$tracing/trace
    echo 1 >$tracing/tracing_on
    /rig/read-ahead /dev/nvme0n1 "$hint" $tracing/trace_marker <"$case"
    echo 0 >$tracing/tracing_on
    echo "CASE $ahead $hint" >>/out/trace.txt
    grep -E "R[0-9]+\+|block_bio_queue" $tracing/trace >>/out/trace.txt
done
