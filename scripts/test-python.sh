#!/bin/bash
# Tests the wheel in target/wheels in fresh environments of the oldest and the newest Python that are there and that it is
# for. In the newest one the types and the stubs are checked as well. pytest ends each run with a line: N passed in N s.
# The oldest one imports the package and makes one sweep; with WAKEPATH_NIGHTLY it runs all tests.
set -uo pipefail
cd "$(dirname "$0")/.."

environments=target/python-test
wheel=$(ls target/wheels/wakepath-*.whl)
failed=0

# Pythons of the wheel's versions, "3.11 /usr/bin/python3.11", oldest first.
pythons() {
    { compgen -c python3. | sort -u; ls "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python 2>/dev/null; } |
        while read -r name; do
            [[ $name =~ (^|/)python(3\.[0-9]+)?$ ]] || continue
            path=$(command -v "$name") || continue
            "$path" -c 'import sys, venv; v = sys.version_info
if v >= (3, 10): print(v.major * 100 + v.minor, sys.executable)' 2>/dev/null
        done | sort -n | sort -u -n -k 1,1
}

mapfile -t all < <(pythons)
if [ ${#all[@]} = 0 ]; then
    echo "skipped: python package: no Python 3.10 or newer is there"
    exit 0
fi
chosen=("${all[0]}")
[ ${#all[@]} = 1 ] || chosen+=("${all[-1]}")

# One sweep through each kind of executor; needs the wheel and pytest alone.
sweep=python/tests/test_sweep.py::test_any_executor_does

run() {
    echo "== $*"
    "$@" || failed=1
}

for each in "${chosen[@]}"; do
    read -r version path <<<"$each"
    environment=$environments/$version
    rm -rf "$environment"
    "$path" -m venv "$environment" || exit 1
    bin=$environment/bin
    echo "== $("$bin/python" --version)"
    if [ "$each" = "${chosen[-1]}" ] || [ -n "${WAKEPATH_NIGHTLY:-}" ]; then
        needed=(--requirement python/tests/requirements.txt)
        tests=python
    else
        needed=("$(grep '^pytest' python/tests/requirements.txt)")
        tests=$sweep
    fi
    "$bin/pip" install --quiet --disable-pip-version-check "${needed[@]}" "$wheel" || exit 1
    run "$bin/python" -m pytest --quiet -p no:cacheprovider --durations=5 "$tests"
done
# Of the installed package: the sources have no library beside them.
run "$bin/python" -m mypy.stubtest wakepath._engine --ignore-disjoint-bases
cd python
run "../$bin/mypy" wakepath tests scale
exit $failed
