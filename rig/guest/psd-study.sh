# The x86 guest, after psd-daemon.sh: a live study with a policy whose leases `wakepath daemon` gives, started by the study.
cat >/tmp/bursts.sh <<'BURSTS'
fio --name=burst --filename=/dev/nvme0n1 --direct=1 --ioengine=psync --rw=randread --bs=4k --number_ios=200 --output=/dev/null
leases=0
! cat /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us | grep -qx 20 || leases=1
deep=$(cat /sys/devices/system/cpu/cpu0/cpuidle/state4/disable)
echo leases $leases deep $deep
BURSTS
cat >/tmp/leases.toml <<'STUDY'
name = "leases"
repeats = 2
settle_s = 0
policy = [
    { name = "none", set = "" },
    { name = "leases", set = "idle-states[disable=C8] + psd[timeout=2s,ceiling=20us]" },
]
[[workload]]
name = "bursts"
command = ["sh", "/tmp/bursts.sh"]
[[workload.metric]]
name = "leases"
pattern = "leases (\\d)"
better = "higher"
[[workload.metric]]
name = "deep"
pattern = "deep (\\d)"
better = "higher"
STUDY
wakepath study run /tmp/leases.toml --on live -o /out/study >/out/study.txt 2>&1 || echo "study: exit $?" >>/out/study.txt
limits >/out/limits-after-study.txt
cat /sys/devices/system/cpu/cpu*/cpuidle/state4/disable >/out/deep-after-study.txt
