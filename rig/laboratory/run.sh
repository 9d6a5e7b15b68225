#!/bin/bash
# Runs all cells of the fidelity suite and writes docs/fidelity.md. The argument is wakepath.
set -euo pipefail
cd "$(dirname "$0")/../.."
rig/own_kernel.py 6.12
folders=()
for study in rig/laboratory/fidelity-*.toml; do
    folder=target/fidelity/$(basename "$study" .toml)
    rig/lab.py "$study" -o "$folder" --force --program "$1" --kernels .cache/kernels
    folders+=("$folder")
done
rig/fidelity.py "${folders[@]}" >target/fidelity.md
mv target/fidelity.md docs/fidelity.md
