#!/bin/bash
# Installs cargo-deb, which makes the Debian package, into .cache/cargo-deb. Does nothing, and needs no network, when it is
# there. Without it the test of the package is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

# Elsewhere nobody makes or installs Debian packages.
command -v dpkg >/dev/null || exit 0

version=3.8.0
folder=.cache/cargo-deb
if [ "$("$folder/bin/cargo-deb" --version 2>/dev/null)" = "cargo-deb $version" ]; then
    exit 0
fi
# Unoptimised, since compiling it takes longer than whatever it is used for.
CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --no-default-features \
    --root "$folder" --version "$version" cargo-deb
