#!/bin/bash
# Fetches Apache ECharts in the version of crates/report/assets/echarts/ORIGIN.toml from the npm registry, checks the
# package against the integrity recorded there, and puts the files that reports need into that folder. For a new version,
# change `version` and `integrity` (npm view echarts@VERSION dist.integrity) there first, then `sha256` to what a test of
# wakepath-report says.
set -euo pipefail
cd "$(dirname "$0")/../crates/report/assets/echarts"

value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" ORIGIN.toml; }
version=$(value version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

npm pack --silent --pack-destination "$work" "echarts@$version" >/dev/null
package=$work/echarts-$version.tgz
found=sha512-$(openssl dgst -sha512 -binary "$package" | base64 -w0)
if [ "$found" != "$(value integrity)" ]; then
    echo "fetch-echarts: echarts $version has integrity $found, and ORIGIN.toml wants $(value integrity)" >&2
    exit 1
fi
tar xzf "$package" -C "$work"
install -m 644 "$work/package/dist/echarts.min.js" "$work/package/LICENSE" "$work/package/NOTICE" \
    "$work/package/licenses/LICENSE-d3" .
echo "echarts $version: $(sha256sum echarts.min.js)"
