# The x86 guest, after record.sh: trace-cmd and perf record the same load, and say themselves what is in their files.
trace-cmd record -q -C mono -o /out/trace.dat -e power:cpu_idle -e power:cpu_frequency -e block:block_rq_issue \
    -e block:block_rq_complete -e sched:sched_waking -e sched:sched_switch -e timer /tmp/load 4 /dev/null
trace-cmd report /out/trace.dat >/out/trace-cmd.txt

perf record -q -a -k mono -o /out/perf.data -e power:cpu_idle -e block:block_rq_issue -e block:block_rq_complete \
    -e sched:sched_waking -e sched:sched_switch -e 'timer:*' -- /tmp/load 4 /dev/null
perf script -i /out/perf.data >/out/perf.txt
