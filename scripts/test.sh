#!/bin/bash
# Tests this repository. Each step writes target/test-logs/STEP.log; all steps run even when an earlier one failed, and
# the summaries of the test runners come at the end, also in target/test-logs/summary.txt.
#
#   scripts/test.sh           `make test`, which CI runs: what a change may break, in some 20 minutes
#   scripts/test.sh nightly   `make nightly`: everything; docs/background/testing.md lists the difference
#
# WAKEPATH_REQUIRE_ALL=1  a test that skips itself, because something is not installed, counts as failed; always so
#                         in `make nightly`
# FUZZ_SECONDS=5          time for each fuzz target, 60 in `make nightly`; 0 leaves fuzzing out
# FUZZ_JOBS=2             fuzz targets at a time
# FUZZ_SEED=1             where fuzzing starts: the same inputs each time, so that a change is blamed for what it did;
#                         `make fuzz` goes elsewhere each time
# TEST_THREADS=4          tests at a time in a binary: several may wait for one guest, or for a timeout
set -uo pipefail
cd "$(dirname "$0")/.."

case ${1:-quick} in
quick)
    nightly=
    unset WAKEPATH_NIGHTLY
    fuzz_seconds=${FUZZ_SECONDS:-5}
    # The tests have compiled all but this repository's crates.
    fuzz_coverage=own
    ;;
nightly)
    nightly=yes
    export WAKEPATH_NIGHTLY=1 WAKEPATH_REQUIRE_ALL=1
    fuzz_seconds=${FUZZ_SECONDS:-60}
    fuzz_coverage=all
    ;;
*)
    echo "test: unknown mode '$1'; expected nothing or: nightly" >&2
    exit 2
    ;;
esac

logs=target/test-logs
rm -rf "$logs"
mkdir -p "$logs"
failed_steps=()
seconds=()
began=$SECONDS

# Says how a step went, by its exit status and seconds; shows the end of its log when it failed.
report() {
    local name=$1 status=$2 took=$3
    if [ "$status" = 0 ]; then
        echo "ok, $took s"
    else
        echo "FAILED after $took s; the end of $logs/$name.log:"
        tail -n 40 "$logs/$name.log" | sed 's/^/    /'
        failed_steps+=("$name")
    fi
    seconds+=("$name $took,")
}

# Runs a step quietly.
step() {
    local name=$1 started=$SECONDS status=0
    shift
    printf '%-12s ' "$name"
    "$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
    report "$name" "$status" "$((SECONDS - started))"
}

# A signal to this script alone does not reach steps in the background.
trap 'trap - TERM; kill 0' INT TERM HUP

# Starts a step beside those that follow. `finish NAME` waits for it.
begin() {
    local name=$1
    shift
    (
        started=$SECONDS status=0
        "$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
        echo "$status $((SECONDS - started))" >"$logs/$name.status"
    ) &
}

finish() {
    local name=$1 status=1 took=0
    printf '%-12s ' "$name"
    wait
    read -r status took <"$logs/$name.status"
    rm -f "$logs/$name.status"
    report "$name" "$status" "$took"
}

# As the tests have built it: a release build takes minutes more, and saves some seconds.
conformance() { target/debug/wakepath-conformance "$@"; }

python=.cache/python/bin
# The package is checked where its wheel is installed.
python_files() { git ls-files '*.py' ':!python/'; }
# Each file by itself: they are programs of different folders.
types() { python_files | xargs -n 1 "$python/mypy" --strict; }

scripts/setup-python.sh || echo "test: no Python packages; the tests that need them are skipped" >&2
[ -z "$nightly" ] || scripts/setup-debian.sh nightly || echo "test: no programs of the recipes; the test that counts their I/Os is skipped" >&2
[ -z "$nightly" ] || scripts/setup-cargo-deb.sh || echo "test: no cargo-deb; the test of the Debian package is skipped" >&2
python_skips=0

echo "Each step writes $logs/STEP.log; a summary comes at the end. The first build takes the longest."
step format cargo fmt --all --check
step bench-format cargo fmt --manifest-path bench/Cargo.toml --check
# The benchmarks are a workspace of their own, and only nights build them.
step bench-lock cargo update --manifest-path bench/Cargo.toml --workspace --locked
if [ -x "$python/ruff" ]; then
    step ruff "$python/ruff" check .
    step ruff-format "$python/ruff" format --check .
    step site scripts/site.py
    # Clippy leaves a core free where one crate waits for the other.
    begin mypy types
else
    python_skips=4
fi
step clippy cargo clippy --workspace --exclude wakepath-fuzz --all-targets --locked -- -D warnings
[ ! -x "$python/ruff" ] || finish mypy
[ -z "$nightly" ] || step bench-clippy cargo clippy --manifest-path bench/Cargo.toml --target-dir target --locked -- -D warnings
[ -z "$nightly" ] || step doc env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --exclude wakepath-fuzz --no-deps --locked
# The output of tests that pass is shown as well, because a skipped test passes and says so there.
test_options=(--show-output --test-threads "${TEST_THREADS:-4}")
# A test of how far predictions of the build machine are off needs the machine to itself.
alone=calibrate_here::predictions_on_this_machine_are_within_their_bounds
[ -z "$nightly" ] || test_options+=(--include-ignored --skip "$alone")
step tests cargo test --workspace --locked --no-fail-fast -- "${test_options[@]}"
[ -z "$nightly" ] || step calibrate-here cargo test -p wakepath-cli --locked --test all -- --ignored --exact "$alone" --nocapture
package_began=
if [ -x "$python/maturin" ]; then
    step wheel scripts/wheel.sh dev
    # Tests of the package keep one core busy.
    begin package scripts/test-python.sh
    package_began=yes
else
    python_skips=$((python_skips + 2))
fi
# The page of the laboratory is what the model makes of the stored measurements.
[ -z "$nightly" ] || step fidelity rig/laboratory/run.sh target/debug/wakepath check
step conformance conformance run
step mutants conformance mutants
[ "$fuzz_seconds" = 0 ] ||
    step fuzz env FUZZ_SECONDS="$fuzz_seconds" FUZZ_SEED="${FUZZ_SEED:-1}" FUZZ_JOBS="${FUZZ_JOBS:-2}" \
        FUZZ_COVERAGE="$fuzz_coverage" scripts/fuzz.sh
[ -z "$package_began" ] || finish package
# Whether searches, canary and fleets still find what they found. With the profile of the tests, so that little is left to build.
[ -z "$nightly" ] || step statistics env WAKEPATH_PROFILE=dev scripts/bench.sh --statistics
# It makes the wheel anew, so nothing may use that meanwhile.
[ -z "$nightly" ] || step dist scripts/test-dist.sh

# Sums "N word" over the `test result:` lines of the test binaries.
sum() { grep -h '^test result:' "$logs/tests.log" | grep -o "[0-9]* $1" | awk '{n += $1} END {print n + 0}'; }
count() { grep -c "$1" "$2" 2>/dev/null; }

# Tests that wait for `make nightly` are neither passed nor skipped.
deferred=$(count '^test .* \.\.\. ignored, nightly: ' "$logs/tests.log")
deferred=${deferred:-0}
skips=$(count '^skipped: ' "$logs/tests.log")
skips=${skips:-0}
# The same over the last lines of pytest's runs.
package_sum() { grep -hE '^[0-9]+ (passed|failed|skipped).* in ' "$logs/package.log" 2>/dev/null | grep -o "[0-9]* $1" | awk '{n += $1} END {print n + 0}'; }
fuzz_ok=0
fuzz_failed=0
if [ -f "$logs/fuzz.log" ]; then
    fuzz_ok=$(count '^fuzz [a-z_]*: ok' "$logs/fuzz.log")
    fuzz_failed=$(count '^fuzz [a-z_]*: FAILED' "$logs/fuzz.log")
fi
# A test that skips itself counts as passed to its runner.
passed=$(($(sum passed) - skips + fuzz_ok + $(package_sum passed)))
failed=$(($(sum failed) + fuzz_failed + $(package_sum failed)))
package_skips=$(count '^skipped: ' "$logs/package.log")
skipped=$(($(sum ignored) - deferred + skips + python_skips + $(package_sum skipped) + ${package_skips:-0}))
# Steps that do not count tests count as one, and a step that failed to even build must not look like none.
for name in format bench-format bench-lock clippy bench-clippy ruff ruff-format mypy site doc calibrate-here wheel statistics dist fidelity conformance mutants; do
    [ -f "$logs/$name.log" ] && [[ " ${failed_steps[*]-} " != *" $name "* ]] && passed=$((passed + 1))
done
for name in "${failed_steps[@]+"${failed_steps[@]}"}"; do
    case $name in
    tests) [ "$(sum failed)" -gt 0 ] || failed=$((failed + 1)) ;;
    fuzz) [ "$fuzz_failed" -gt 0 ] || failed=$((failed + 1)) ;;
    package) [ "$(package_sum failed)" -gt 0 ] || failed=$((failed + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
if [ "${WAKEPATH_REQUIRE_ALL:-}" = 1 ] && [ "$skipped" -gt 0 ]; then
    failed_steps+=("skipped tests")
fi

{
    echo
    echo "== summaries =="
    grep -hE '^ +Running |^ +Doc-tests |^test result:' "$logs/tests.log"
    grep -hE '^(comparing with|[0-9]+ decisions compared)' "$logs/conformance.log"
    grep -hE '^[0-9]+ of [0-9]+ alterations' "$logs/mutants.log"
    [ -f "$logs/fuzz.log" ] && grep -hE '^fuzz [a-z_]+: ' "$logs/fuzz.log"
    grep -hsE '^[0-9]+ (passed|failed|skipped).* in ' "$logs/package.log" | sed 's/^/python package: /'
    grep -hs '^skipped: ' "$logs/tests.log" "$logs/package.log"
    [ "$python_skips" = 0 ] || echo "skipped: ruff, mypy, the site and the Python package: scripts/setup-python.sh could not install them"
    [ "$deferred" = 0 ] || echo "left to make nightly: $deferred tests"
    echo "seconds of each step: ${seconds[*]} all with set-up $((SECONDS - began))"
    # Once more at the very end, because CI may keep no more than that.
    failed_tests=$(awk -f scripts/failed-tests.awk "$logs/tests.log")
    for name in "${failed_steps[@]+"${failed_steps[@]}"}"; do
        echo "failed: $name"
        if [ -f "$logs/$name.log" ] && { [ "$name" != tests ] || [ -z "$failed_tests" ]; }; then
            tail -n 30 "$logs/$name.log" | cut -c 1-400 | sed 's/^/    /'
        fi
    done
    [ -z "$failed_tests" ] || echo "$failed_tests"
    echo "$passed passed, $failed failed, $skipped skipped"
} | tee "$logs/summary.txt"

[ ${#failed_steps[@]} -eq 0 ]
