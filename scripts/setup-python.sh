#!/bin/bash
# Installs the Python packages that tests, checks and benchmarks need into an environment of their own, .cache/python.
# Does nothing, and needs no network, when they are there. Without them the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.cache/python
wanted=$(cat crates/*/tests/requirements.txt bench/requirements.txt scripts/requirements.txt)
if cmp -s <(echo "$wanted") "$environment/installed.txt"; then
    exit 0
fi
rm -rf "$environment"
mkdir -p .cache
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check --timeout 20 --retries 2 \
    --no-deps --requirement <(echo "$wanted")
echo "$wanted" >"$environment/installed.txt"
