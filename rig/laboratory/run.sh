#!/bin/bash
# Runs all cells of the fidelity suite and writes docs/background/fidelity.md. The argument is wakepath; with `stored` behind it, the
# measurements of rig/laboratory/measured are taken, and no guest runs. With `check` the page is made of these, and compared only.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$1 how=${2:-measure}
case $how in
    measure | stored | check) ;;
    *)
        echo "run.sh: unknown word '$how'; expected nothing, stored or check" >&2
        exit 2
        ;;
esac
if [ "$how" = measure ]; then
    rig/own_kernel.py 6.12
    rig/own_kernel.py 6.12 --hz 1000
    rig/own_kernel.py 6.12 --irq-time
fi
suite=() others=() models=()
for study in rig/laboratory/{fidelity,others,buffered,commits,read-ahead,polling,mapped,ring,checking,threads,steady,replays,servers,ext4,xfs,menu}-*.toml; do
    name=$(basename "$study" .toml)
    folder=target/fidelity/$name measured=rig/laboratory/measured/$name.jsonl
    if [ "$how" != measure ]; then
        rig/lab.py "$study" -o "$folder" --force --program "$program" --measured "$measured"
    else
        # Jobs outside the suite have another seed, too.
        case $name in others-*) seed=7 ;; *) seed=1 ;; esac
        rig/lab.py "$study" -o "$folder" --force --program "$program" --kernels .cache/kernels --seed $seed
        cp "$folder/runs.jsonl" "$measured"
    fi
    case $name in
        fidelity-*) suite+=("$folder") ;;
        others-*) others+=("$folder") ;;
        *) models+=("$folder") ;;
    esac
done
rig/fidelity.py "${suite[@]}" --others "${others[@]}" --models "${models[@]}" --cells target/fidelity.csv >target/fidelity.md
page=docs/background/fidelity.md cells=docs/background/data/fidelity.csv
if [ "$how" = check ]; then
    diff -u "$page" target/fidelity.md
    diff -u "$cells" target/fidelity.csv
    exit
fi
mv target/fidelity.md "$page"
mv target/fidelity.csv "$cells"
