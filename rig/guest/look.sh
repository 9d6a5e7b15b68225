# What the guest is like: for a first look, and when something does not work.
uname -a
cat /sys/devices/system/cpu/cpuidle/current_driver /sys/devices/system/cpu/cpuidle/current_governor
for state in /sys/devices/system/cpu/cpu0/cpuidle/state*; do
    echo "$(cat "$state/name") $(cat "$state/latency") $(cat "$state/residency") $(cat "$state/usage")"
done
ls /dev
cat /sys/devices/system/clocksource/clocksource0/current_clocksource
sleep 1
for state in /sys/devices/system/cpu/cpu0/cpuidle/state*; do
    echo "$(cat "$state/name") $(cat "$state/usage") $(cat "$state/time")"
done
