#!/bin/bash
# Draws docs/images/report.png anew: the top of the report on the study of `make demo`, as Debian's Chromium shows it in a window of
# 1100 pixels. Run it when the page looks different. Needs chromium (scripts/setup-debian.sh).
#
#   scripts/report-picture.sh [PROGRAM]   PROGRAM is wakepath, target/demo/wakepath if not given
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:-target/demo/wakepath}
for needed in "$program" chromium; do
    if ! command -v "$needed" >/dev/null; then
        echo "report-picture: $needed is not there; \`make demo\` builds the program, scripts/setup-debian.sh installs chromium" >&2
        exit 1
    fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" study run docs/examples/one-job.toml -o "$folder/results" >/dev/null
"$program" report "$folder/results" -o "$folder/report.html" >/dev/null
# A profile of its own, so that no browser of the user's is asked. The pictures of the page are drawn after it has loaded.
chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb \
    --user-data-dir="$folder/profile" --window-size=1100,950 --virtual-time-budget=10000 \
    --screenshot="$folder/report.png" "file://$folder/report.html" >/dev/null 2>"$folder/errors" || {
    tail -n 5 "$folder/errors" >&2
    exit 1
}
mv "$folder/report.png" docs/images/report.png
