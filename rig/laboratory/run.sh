#!/bin/bash
# Runs all cells of the fidelity suite and writes docs/fidelity.md. The argument is wakepath; with `stored` behind it, the
# measurements of rig/laboratory/measured are taken, and no guest runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$1 how=${2:-measure}
[ "$how" = stored ] || rig/own_kernel.py 6.12
folders=()
for study in rig/laboratory/fidelity-*.toml; do
    name=$(basename "$study" .toml)
    folder=target/fidelity/$name measured=rig/laboratory/measured/$name.jsonl
    if [ "$how" = stored ]; then
        rig/lab.py "$study" -o "$folder" --force --program "$program" --measured "$measured"
    else
        rig/lab.py "$study" -o "$folder" --force --program "$program" --kernels .cache/kernels
        cp "$folder/runs.jsonl" "$measured"
    fi
    folders+=("$folder")
done
rig/fidelity.py "${folders[@]}" >target/fidelity.md
mv target/fidelity.md docs/fidelity.md
