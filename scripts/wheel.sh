#!/bin/bash
# Builds the wheel of the Python package into target/wheels: scripts/wheel.sh [PROFILE]. PROFILE is one of Cargo's: release if
# not given; demo is quicker to build. The program `wakepath` goes into the wheel, too. The last line says how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${1:-release}
maturin=.cache/python/bin/maturin
[ -x "$maturin" ] || scripts/setup-python.sh

folder=$profile
[ "$profile" != dev ] || folder=debug
program=target/$folder/wakepath
# The tests have built that of dev already.
if [ "$profile" != dev ] || [ ! -x "$program" ]; then
    # Both packages are named, though only the program is built: then its crates have the features that the engine asks of
    # them, and maturin takes them as they are. Named alone, the program would have Arrow, Parquet and wakepath built twice.
    cargo build --quiet --locked --profile "$profile" -p wakepath-cli -p wakepath-python --bin wakepath
fi
install -D "$program" python/data/scripts/wakepath
strip python/data/scripts/wakepath
rm -f target/wheels/wakepath-*.whl
"$maturin" build --quiet --locked --profile "$profile" --strip --manifest-path python/Cargo.toml --out target/wheels
echo "$(ls target/wheels/wakepath-*.whl): built in $((SECONDS / 60)) min $((SECONDS % 60)) s"
