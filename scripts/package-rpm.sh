#!/bin/bash
# Makes the RPM package of the files in a Debian package, so that both have the same: scripts/package-rpm.sh DEB DIRECTORY.
# Needs rpmbuild (Debian: rpm).
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -ne 2 ]; then
    echo "usage: scripts/package-rpm.sh DEB DIRECTORY" >&2
    exit 2
fi
command -v rpmbuild >/dev/null || { echo "package-rpm: no rpmbuild; scripts/setup-debian.sh installs it" >&2; exit 1; }
deb=$1 into=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb --extract "$deb" "$work/staged"
version=$(dpkg-deb --field "$deb" Version)
# The Debian revision is no part of the version.
version=${version%-*}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
rpmbuild -bb --quiet packaging/rpm/wakepath.spec \
    --define "_topdir $work" --define "_rpmdir $work/out" --define "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm" \
    --define "staged $work/staged" --define "wakepath_version $version" \
    --define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1"
mkdir -p "$into"
cp "$work"/out/*.rpm "$into"
