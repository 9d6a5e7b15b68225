#!/bin/bash
# Makes the Debian package target/debian/wakepath_*.deb with cargo-deb (scripts/setup-cargo-deb.sh).
#
#   scripts/package-debian.sh                     of a release build
#   scripts/package-debian.sh PROGRAM DIRECTORY   of a program that is built already, into a directory, packed lightly:
#                                                 what the tests do
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_deb=.cache/cargo-deb/bin/cargo-deb
if [ $# -gt 0 ] && [ ! -x $cargo_deb ]; then
    echo "package-debian: no cargo-deb; scripts/setup-cargo-deb.sh installs it" >&2
    exit 1
fi
assets=target/staged
rm -rf "$assets"
mkdir -p "$assets/man"
if [ $# -gt 0 ]; then
    program=$1
    options=(--fast --output "$2")
else
    scripts/setup-cargo-deb.sh
    scripts/setup-llvm-tools.sh
    scripts/profiled-build.sh crates/cli/Cargo.toml wakepath scripts/training.sh
    program=target/profiled/wakepath
    options=(--output target/debian/)
fi
install -m 755 "$program" "$assets/wakepath"
strip "$assets/wakepath"
"$assets/wakepath" man "$assets/man"
gzip --best --no-name "$assets"/man/*.1
gzip --best --no-name --stdout CHANGELOG.md >"$assets/NEWS.gz"
for shell in bash zsh fish; do
    "$assets/wakepath" completions "$shell" >"$assets/wakepath.$shell"
done
# It wonders whether the files in target/staged are to be built, which they are.
$cargo_deb --quiet --package wakepath-cli --no-build --no-strip "${options[@]}"
