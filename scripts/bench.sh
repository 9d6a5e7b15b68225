#!/bin/bash
# Runs all benchmarks and writes their output into docs/background/performance.md, between "figures" and "end of figures". Nothing else
# should run meanwhile. It takes about an hour, most of it for release builds.
#
#   scripts/bench.sh                 builds with a profile, runs all, writes the page
#   scripts/bench.sh --dry-run       the same, and prints the page's figures instead of writing them
#   scripts/bench.sh --all-searches  with 100 searches of tune in each of the five spaces, not 20 in two of them
#   scripts/bench.sh --statistics    only searches, the canary's roll-outs and fleets, at a reduced size, printed and not written
set -euo pipefail
cd "$(dirname "$0")/.."

dry_run= statistics= searches=(20 board-power board-writes) roll_outs=10000 captures=2000 recordings_mb=1000
# `--statistics` has the features of the whole workspace: what `make test` has built need not be built again.
packages=(-p wakepath-tune -p wakepath-watch -p wakepath-fleet)
for option in "$@"; do
    case $option in
        --dry-run) dry_run=1 ;;
        --all-searches) searches=(100) ;;
        --statistics) statistics=1 packages=(--workspace) searches=(10 board-power) roll_outs=500 captures=300 ;;
        *)
            echo "bench: unknown option $option; there are --dry-run, --all-searches and --statistics" >&2
            exit 2
            ;;
    esac
done

page=docs/background/performance.md
for marker in '<!-- figures -->' '<!-- end of figures -->'; do
    if ! grep -qxF -- "$marker" "$page"; then
        echo "bench: $page has no line \"$marker\"; put it back, so that figures have a place" >&2
        exit 2
    fi
done

# Optuna, pyarrow and SimPy. Where they cannot be had, each comparison with them says in a line that it is skipped.
scripts/setup-python.sh || echo "bench: no Python packages to compare with" >&2
python=${WAKEPATH_PYTHON:-.cache/python/bin/python}
[ -x "$python" ] || python=python3
profile=${WAKEPATH_PROFILE:-release}
if [ -z "$statistics" ]; then
    scripts/setup-llvm-tools.sh
    scripts/profiled-build.sh bench/Cargo.toml wakepath-bench sh -c '"$PROGRAM" --train'
    cargo build --quiet --release --locked -p wakepath-conformance -p wakepath-cli
fi
cargo build --quiet --profile "$profile" --locked "${packages[@]}" \
    --example search_quality --example canary_figures --example fleet_figures --example fleet_recordings
examples=target/${profile/#dev/debug}/examples

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# First line of what a program prints about its version, or that there is none.
version_of() {
    local lines
    lines=$("$@" 2>/dev/null) || true
    grep -m 1 . <<<"${lines:-no $1}"
}

# Runs a program whose output goes into the page, and to the terminal meanwhile.
missed=0
step() {
    "$@" | tee >(cat >&2) || missed=1
}

# As step; a program that says by exit code 3 that the machine lacks something misses nothing.
step_if_possible() {
    local codes
    "$@" 2>&1 | tee >(cat >&2) || { codes=("${PIPESTATUS[@]}") && [ "${codes[0]}" = 3 ] || missed=1; }
}

# What tune, canary and fleet find, beside other programs.
run_statistics() {
    step "$examples/search_quality" "$folder/searches" "${searches[@]}"
    echo
    step_if_possible "$python" bench/search_optuna.py "$folder/searches"
    echo
    step "$examples/canary_figures" "$roll_outs"
    echo
    step "$examples/fleet_figures" "$captures"
    echo
    # Its bound is a ratio of times, which a build without optimisation misses.
    [ -n "$statistics" ] || step_if_possible "$examples/fleet_recordings" "$folder/recordings" "$recordings_mb" "$python"
}

if [ -n "$statistics" ]; then
    run_statistics >"$folder/figures"
    exit "$missed"
fi

{
    echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sort -u), $(nproc) CPUs, $(uname -sr)"
    echo "$(rustc --version), $(version_of gcc --version), $(version_of trace-cmd -v)"
    echo
    step target/profiled/wakepath-bench
    echo
    step target/release/wakepath-conformance bench
    echo
    step scripts/study-figures.sh
    echo
    echo "explain beside other tracers, three rounds; scripts/explain-cost.sh has more:"
    step_if_possible scripts/explain-cost.sh target 3 2
    echo
    run_statistics
} >"$folder/figures"

awk -v figures="$folder/figures" '
    $0 == "<!-- end of figures -->" { skipping = 0 }
    !skipping { print }
    $0 == "<!-- figures -->" {
        print "\n```text"
        while ((getline line < figures) > 0) print line
        print "```\n"
        skipping = 1
    }' "$page" >"$folder/page"
if [ -n "$dry_run" ]; then
    diff "$page" "$folder/page" || true
else
    cat "$folder/page" >"$page"
    echo "bench: $page has these figures now" >&2
fi
exit "$missed"
