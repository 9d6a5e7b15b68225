# The x86 guest, after psd.sh: without the kernel module wakepath_psd, with it, with other parameters, and so on.
module=/rig/modules/wakepath_psd.ko
parameters=/sys/module/wakepath_psd/parameters
stats=/sys/kernel/debug/wakepath_psd/stats

# The time, in seconds, at which the module's counts are read.
counting() {
    cut -d ' ' -f 1 /proc/uptime >>/out/counted.txt
}

# The rig has loaded it.
rmmod wakepath_psd
start
phase without
sleep 3

phase -
insmod $module
cat $parameters/timeout_ms $parameters/ceiling_us >/out/defaults.txt
phase default
sleep 3
cat $stats >/out/default.txt

phase -
for value in -1 10001 x; do
    if echo $value 2>/dev/null >$parameters/timeout_ms; then
        echo "timeout_ms takes $value"
        exit 1
    fi
done
echo 40 >$parameters/timeout_ms
echo 5 >$parameters/ceiling_us
phase changed
usleep 500000
counting
cat $stats >/out/counted-from.txt
read_more 500
counting
cat $stats >/out/changed.txt

# A CPU that leaves takes its lease along, and has a new one when it comes back.
phase -
echo 0 >/sys/devices/system/cpu/cpu1/online
usleep 300000
cat $stats >/out/one-cpu.txt
echo 1 >/sys/devices/system/cpu/cpu1/online
usleep 300000
cat $stats >/out/two-cpus.txt

# In and out.
for pause in 0 50000 0 200000 100000; do
    rmmod wakepath_psd
    insmod $module timeout_ms=40
    usleep $pause
done

echo 0 >$parameters/timeout_ms
usleep 100000
cat $stats >/out/off-before.txt
phase off
sleep 2
cat $stats >/out/off-after.txt
rmmod wakepath_psd
finish
