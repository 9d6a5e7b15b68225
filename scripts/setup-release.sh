#!/bin/bash
# Installs what `make dist` needs besides Debian's packages: cargo-deb, cargo-sbom (lists components) and twine (checks the
# wheel). Does nothing, and needs no network, when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup-cargo-deb.sh
scripts/setup-python.sh

version=0.10.0
folder=.cache/cargo-sbom
if [ ! -x $folder/bin/cargo-sbom ] || [ "$(cat $folder/version 2>/dev/null)" != "$version" ]; then
    # Unoptimised, since compiling it takes longer than whatever it is used for.
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --force --debug --root "$folder" --version "$version" cargo-sbom
    echo "$version" >$folder/version
fi

twine=6.2.0
environment=.cache/twine
if [ "$("$environment/bin/twine" --version 2>/dev/null | grep -o 'version [0-9.]*')" != "version $twine" ]; then
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 2 "twine==$twine"
fi
