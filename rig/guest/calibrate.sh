# The guest of rig/lab_calibrate.py: `wakepath calibrate` on a file system of the laboratory's drive.

# calibrate_guest KIB OPTION...: makes a file system of this size, and calibrates on it.
calibrate_guest() {
    kib=$1
    shift
    # busybox has one, too, which makes no ext4. Tables are written now: a mounted file system that still writes them keeps the drive awake.
    /usr/bin/mke2fs -q -t ext4 -O ^has_journal -E nodiscard,lazy_itable_init=0 /dev/drive0 $kib
    mkdir -p /mnt
    mount -t ext4 /dev/drive0 /mnt
    # A guest that is given up tells by its console how many steps were done.
    WAKEPATH_PROGRESS=/dev/console wakepath calibrate --folder /mnt -o /out/machine.toml --format json "$@" >/out/calibration.json 2>/out/calibration.txt
    umount /mnt
}
