# The x86 guest, after record.sh: a CPU goes off- and online, and buffers run over, while all three tools record.
cat >/tmp/off-and-on <<'SCRIPT'
#!/bin/sh
sleep 1
echo 0 >/sys/devices/system/cpu/cpu1/online
sleep 2
echo 1 >/sys/devices/system/cpu/cpu1/online
sleep 1
SCRIPT
cat >/tmp/recorded <<'SCRIPT'
#!/bin/sh
wakepath record -o /out/hotplug.parquet --format json -- /tmp/off-and-on >/out/hotplug.json
# The kernel forgets the eBPF programs a little later, and trace-cmd gives up when symbols go while it copies them.
sleep 1
SCRIPT
chmod +x /tmp/off-and-on /tmp/recorded
trace-cmd record -q -o /out/hotplug.dat -e power:cpu_idle -e sched:sched_switch -e cpuhp:cpuhp_enter \
    /tmp/recorded 2>/out/hotplug.txt

wakepath record -o /out/lost.parquet --buffer 4 --format json -- /tmp/load 1 /dev/null >/out/lost.json 2>/out/lost.txt
# Nobody empties the smallest buffers before all is over.
trace-cmd start -q -b 8 -e power:cpu_idle -e sched:sched_switch -e timer
/tmp/load 1 /dev/null
trace-cmd stop
trace-cmd extract -o /out/lost.dat >/dev/null
trace-cmd reset
trace-cmd report /out/lost.dat >/out/lost-trace-cmd.txt
perf record -q -a -m 1 -o /out/lost.data -e power:cpu_idle -e sched:sched_switch -e 'timer:*' -e 'irq:*' \
    -- /tmp/load 1 /dev/null
perf script --show-lost-events -i /out/lost.data >/out/lost-perf.txt
