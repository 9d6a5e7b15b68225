#!/bin/bash
# Installs the Debian packages that the tests need, when root; otherwise prints the command and stops.
# Does nothing, and needs no network, when they are all there.
#
#   scripts/setup-debian.sh         all of them
#   scripts/setup-debian.sh build   those that building the program takes: what `make demo` needs. Whoever is not root does without
#                                   those of the eBPF programs, and is told what the program cannot do then
#   scripts/setup-debian.sh nightly all of them, and the programs of the recipes
#
# The kernel sources of the conformance check are not among them: its tool fetches and caches the packages
# linux-source-6.1 and linux-source-6.12 itself.
set -euo pipefail

# gcc, libc6-dev  compile the kernel's own policies to compare with
# g++             libFuzzer
# binutils        takes Debian packages apart (ar)
# xz-utils        unpacks the kernel sources
# fio, rt-app     tests: the same files in the real fio and the real rt-app
# blktrace        tests: block traces as the real blkparse prints them
# dbench, hyperfine  tests: results of theirs are imported
# nvme-cli        tests: the same dumps in the real nvme
# python3-venv    tests: timelines in Perfetto's trace processor (scripts/setup-python.sh)
# bsdutils        tests: a terminal for the progress bar (script)
# zstd            unpacks a trace (scripts/training.sh)
# slurmctld, slurmd, slurm-client  tests: scripts of docs/guides/cluster.md as jobs of a real Slurm
# systemd, dpkg-dev  tests: the Debian package (systemd-analyze, dpkg-shlibdeps; scripts/setup-cargo-deb.sh)
# rpm             makes the RPM package (scripts/package-rpm.sh)
# chromium        tests: reports in a real browser; fonts-dejavu-core, so that it has letters
# clang, libbpf-dev  compile the eBPF programs of `wakepath record` and `wakepath daemon`
# qemu-system-*, busybox-static, cpio, device-tree-compiler, trace-cmd, linux-perf, libelf1
#                 tests: virtual machines with idle states (docs/background/laboratory.md), whose kernels rig/rig.py fetches itself
# xfsprogs        tests: a guest of the laboratory with XFS (mkfs.xfs)
# dmsetup         tests: a guest that reads through the device mapper
# mmdebstrap      tests: a Debian with systemd and a disk for a virtual machine (rig/systemd_guest.py)
# openssh-client  tests: the role of Ansible on two virtual machines
# bpftrace        what `wakepath explain` costs beside it (scripts/explain-cost.sh)
# prometheus      tests: metrics, alerts and board beside it (promtool)
# bc, bison, flex, libelf-dev  kernels of our own for the laboratory (rig/own_kernel.py)
packages=(make gcc g++ libc6-dev binutils xz-utils ca-certificates fio nvme-cli python3-venv bsdutils
    clang libbpf-dev qemu-system-x86 qemu-system-arm busybox-static cpio device-tree-compiler trace-cmd linux-perf
    rt-app libelf1 bc bison flex libelf-dev chromium fonts-dejavu-core dbench hyperfine systemd dpkg-dev rpm zstd
    slurmctld slurmd slurm-client bpftrace prometheus mmdebstrap openssh-client blktrace xfsprogs dmsetup)
ebpf_packages=(clang libbpf-dev)
# Tests count what these ask of a disk (scripts/recipes.py), which starts them by itself in folders of its own.
recipe_packages=(postgresql mariadb-server-core mariadb-client-core sysbench etcd-server etcd-client rocksdb-tools redis-server redis-tools
    nginx-light wrk sqlite3)
case ${1:-all} in
all) ;;
nightly) packages+=("${recipe_packages[@]}") ;;
build) packages=(make gcc libc6-dev "${ebpf_packages[@]}") ;;
*)
    echo "setup: unknown argument '$1'; expected nothing, build or nightly" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null; then
    echo "setup: not a Debian system; install what corresponds to: ${packages[*]}" >&2
    exit 0
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done

# apt knows no package of its own until its lists were fetched once, and the kernel sources come through apt.
lists_missing=
[ "${1:-all}" = build ] || apt-cache show linux-source-6.1 >/dev/null 2>&1 || lists_missing=yes

# Only eBPF programs need these, and a build leaves them out.
if [ "${1:-all}" = build ] && [ "$(id -u)" -ne 0 ]; then
    mapfile -t needed < <(printf '%s\n' "${missing[@]}" | grep -vxF "$(printf '%s\n' "${ebpf_packages[@]}")" || true)
    if [ ${#missing[@]} -gt 0 ] && [ -z "${needed[*]}" ]; then
        echo "setup: without ${missing[*]} the program cannot record, explain or watch this machine; all else works" >&2
        missing=()
    fi
fi

if [ ${#missing[@]} -gt 0 ] || [ -n "$lists_missing" ]; then
    commands="apt-get update"
    [ ${#missing[@]} -eq 0 ] ||
        commands+=" && apt-get install --yes --no-install-recommends ${missing[*]}"
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: this needs root; run it once, then make again:" >&2
        echo "    sudo sh -c '$commands'" >&2
        exit 1
    fi
    echo "setup: $commands"
    DEBIAN_FRONTEND=noninteractive sh -c "$commands" >/dev/null
fi

if ! command -v cargo >/dev/null; then
    echo "setup: no Rust toolchain found; install Rust 1.88 or newer (https://www.rust-lang.org/tools/install)" >&2
    exit 1
fi
