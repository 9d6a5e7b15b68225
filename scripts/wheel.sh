#!/bin/bash
# Builds the wheel of the Python package into target/wheels: scripts/wheel.sh [PROFILE]. PROFILE is one of Cargo's, release if
# not given. The program `wakepath` goes into the wheel, too.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
maturin=.cache/python/bin/maturin
[ -x "$maturin" ] || scripts/setup-python.sh

case $profile in
# The tests have built it already, and, thanks to the features that python/Cargo.toml asks for, what the engine takes of
# other people's crates.
dev) [ -x target/debug/wakepath ] || cargo build --quiet --locked -p wakepath-cli && program=target/debug/wakepath ;;
*) cargo build --quiet --locked --profile "$profile" -p wakepath-cli && program=target/$profile/wakepath ;;
esac
install -D "$program" python/data/scripts/wakepath
strip python/data/scripts/wakepath
rm -f target/wheels/wakepath-*.whl
"$maturin" build --quiet --locked --profile "$profile" --strip --manifest-path python/Cargo.toml --out target/wheels
ls target/wheels/wakepath-*.whl
