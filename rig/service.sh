#!/bin/bash
# systemd as the first process of a namespace of its own, over a throw-away copy of this system. It knows no unit but
# those that are made here: nothing of this system is started a second time.
#
#   unshare --mount --pid --net --uts --fork --kill-child rig/service.sh FOLDER
#
# FOLDER is empty; the system is mounted at FOLDER/root, in the namespace only. As root. `nsenter` gets in.
set -euo pipefail
folder=$(realpath "$1")
repository=$(realpath "$(dirname "$0")/..")
systemd=/lib/systemd/systemd
[ -x $systemd ] || {
    echo "no $systemd (Debian: systemd)" >&2
    exit 3
}

mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder"/{changed,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$folder/changed,workdir=$folder/work" overlay "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
# A repository below /tmp, or on a file system of its own as in a container, is shown as well, but cannot be changed.
if [ ! -e ".$repository/rig/service.sh" ]; then
    mkdir -p ".$repository"
    mount --bind "$repository" ".$repository"
    mount -o remount,bind,ro ".$repository"
fi
mount -t cgroup2 cgroup2 sys/fs/cgroup

# What a unit with the usual dependencies asks for.
units=etc/rig-units
mkdir $units
for target in rig sysinit basic shutdown multi-user local-fs; do
    printf '[Unit]\nDefaultDependencies=no\n' >$units/$target.target
done
# A service's own files are where a package puts them; its log is a file, since there is no journal.
ln -s /usr/lib/systemd/system/wakepath.service $units/
mkdir $units/wakepath.service.d
cat >$units/wakepath.service.d/rig.conf <<UNIT
[Unit]
# This is a namespace, but of a machine that is there for it.
ConditionVirtualization=
[Service]
StandardOutput=append:/run/wakepath.log
StandardError=append:/run/wakepath.log
RestartSec=100ms
WatchdogSec=8s
UNIT
# Packages may start and stop services here.
rm -f usr/sbin/policy-rc.d

# "container" keeps systemd from setting this machine's clock, modules and security policy up.
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=rig SYSTEMD_UNIT_PATH=/etc/rig-units \
    chroot . $systemd --system --unit=rig.target --log-target=console --show-status=no
