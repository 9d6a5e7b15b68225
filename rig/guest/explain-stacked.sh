# After explain-load.sh, with --load dm_crypt, crypto_null and ext4, and --program dmsetup and mke2fs: reads through the device mapper,
# and writes whose commits the file system's thread writes.

own=$(drive rig)
sectors=$(cat "/sys/block/$own/size")

# stack NAME TARGET: maps the whole drive, and notes what explain says of reads through the mapping.
stack() {
    dmsetup create "$1" --table "0 $sectors $2"
    dmsetup mknodes
    cell "$1" "$own" "filename=/dev/mapper/$1"
    dmsetup remove "$1"
}

stack linear "linear /dev/$own 0"
# A kernel worker decrypts what was read, and wakes the reader.
stack crypt "crypt cipher_null-ecb - 0 /dev/$own 0"

# busybox has a mke2fs, too.
/usr/bin/mke2fs -q -t ext4 -O ^metadata_csum -E lazy_itable_init=0,lazy_journal_init=0 "/dev/$own" 65536
mkdir /tmp/files
mount -t ext4 "/dev/$own" /tmp/files
cat >/tmp/commits.fio <<JOB
[commits]
filename=/tmp/files/data
size=4m
bs=4k
rw=randwrite
fsync=1
number_ios=300
cpus_allowed=$load_cpu
JOB
wakepath explain --format json -- fio --output=/tmp/fio.txt /tmp/commits.fio >/out/commits.json 2>/out/commits.txt || {
    cat /out/commits.txt /tmp/fio.txt
    exit 1
}
umount /tmp/files
