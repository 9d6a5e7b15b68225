# The x86 guest: `wakepath measure` with real idle states and an NVMe drive, and the settings before and after it.
settings() {
    cat /sys/devices/system/cpu/cpuidle/current_governor /sys/devices/system/cpu/cpu*/cpuidle/state*/disable
}

settings >/out/before.txt
wakepath measure wake --time 30s --format json >/out/wake.json
settings >/out/after.txt

# A kill leaves states off, and `restore` puts them back.
wakepath measure wake --time 60s >/dev/null 2>&1 &
killed=$!
while [ "$(settings)" = "$(cat /out/before.txt)" ] && kill -0 $killed; do usleep 50000; done
kill -9 $killed
settings >/out/killed.txt
wakepath restore >/dev/null
settings >/out/restored.txt

# Trimmed blocks read as zeros, and are refused.
if wakepath measure drive --file /dev/nvme0n1 2>/out/zeros.txt; then
    echo "zeros were measured"
    exit 1
fi
dd if=/dev/urandom of=/dev/nvme0n1 bs=1M 2>/dev/null || true
wakepath measure drive --file /dev/nvme0n1 --time 20s --format json >/out/drive.json 2>/out/drive.txt || cat /out/drive.txt
