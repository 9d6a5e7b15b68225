# The x86 guest, after record.sh: trace-cmd and perf record the same load, and say themselves what is in their files.
trace-cmd record -q -o /out/trace.dat -e power:cpu_idle -e power:cpu_frequency -e block:block_rq_issue \
    -e block:block_rq_complete -e sched:sched_wakeup -e sched:sched_switch -e timer:hrtimer_expire_entry \
    fio --runtime=2 --output=/dev/null /tmp/job.fio
trace-cmd report /out/trace.dat >/out/trace-cmd.txt

perf record -q -a -o /out/perf.data -e power:cpu_idle -e block:block_rq_issue -e block:block_rq_complete \
    -e sched:sched_wakeup -e sched:sched_switch -e timer:hrtimer_expire_entry -- sleep 1
perf script -i /out/perf.data >/out/perf.txt
