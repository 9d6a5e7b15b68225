# The x86 guest, after daemon.sh and psd.sh: without `wakepath daemon`, with it, and after it.
limits() {
    cat /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us
}

limits >/out/limits-before.txt
start
phase without
read_more 500

phase -
daemon "psd[timeout=60ms,ceiling=20us,start_after=1]"
phase daemon
read_more 1000

phase -
kill -TERM $daemon
wait $daemon
limits >/out/limits-after.txt
phase after
read_more 500
finish
