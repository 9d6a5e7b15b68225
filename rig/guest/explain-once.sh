# After explain-load.sh, in a guest whose kernel or idle states are special: a queue for each CPU, and one for all.
cat /sys/devices/system/cpu/cpuidle/current_driver /sys/devices/system/cpu/cpuidle/current_governor >/out/idle.txt
uname -v >/out/version.txt
cell own-queues "$(drive rig)"
cell one-queue "$(drive shared)"
