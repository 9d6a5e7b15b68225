# The x86 guest, after psd.sh: without `wakepath daemon`, with it, and after it.
cat >/tmp/daemon.toml <<TOML
policy = ["psd[timeout=60ms,ceiling=20us,start_after=1]"]
[boost]
mode = "off"
TOML

limits() {
    cat /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us
}

limits >/out/limits-before.txt
start
phase without
read_more 500

phase -
wakepath daemon --config /tmp/daemon.toml >/out/daemon.txt 2>&1 &
daemon=$!
until grep -q leases /out/daemon.txt; do
    kill -0 $daemon
    usleep 100000
done
phase daemon
read_more 1000

phase -
kill -TERM $daemon
wait $daemon
limits >/out/limits-after.txt
phase after
read_more 500
finish
