#!/bin/bash
# Builds what a release consists of into target/dist: crate archives, wheel, .deb, .rpm, a list of components (SPDX), and the
# checksums of all. Nothing is published. Needs the tools of scripts/setup-debian.sh and scripts/setup-release.sh, and
# a network only for dependencies that Cargo does not have yet.
#
#   scripts/dist.sh          of the committed state, optimised; each crate archive is unpacked and compiled
#   scripts/dist.sh quick    of the files as they are, quickly built, and without that check: what the test does
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-full} in
full) quick= ;;
quick) quick=yes ;;
*)
    echo "dist: unknown argument '$1'; expected nothing or: quick" >&2
    exit 2
    ;;
esac
if [ -z "$quick" ] && [ -n "$(git status --porcelain)" ]; then
    echo "dist: there are changes that are not committed (git status); a release is built of a commit" >&2
    exit 1
fi
scripts/setup-release.sh

dist=target/dist
rm -rf "$dist"
mkdir -p "$dist/crates"

say() { echo "dist: $*, after $((SECONDS / 60)) min $((SECONDS % 60)) s"; }

# Crates that nobody else needs have `publish = false`.
members=$(cargo metadata --no-deps --format-version 1 --locked)
version=$(python3 -c 'import json,sys; print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "wakepath-cli"))' <<<"$members")
mapfile -t private < <(python3 -c 'import json,sys; [print(p["name"]) for p in json.load(sys.stdin)["packages"] if p["publish"] == []]' <<<"$members")
options=()
for name in "${private[@]}"; do options+=(--exclude "$name"); done
[ -z "$quick" ] || options+=(--no-verify --allow-dirty)
rm -f target/package/*.crate
cargo package --workspace --locked --quiet "${options[@]}"
mv target/package/*.crate "$dist/crates"
say "$(ls "$dist/crates" | wc -l) crate archives"

if [ -n "$quick" ]; then
    scripts/wheel.sh dev >/dev/null
    scripts/package-debian.sh target/debug/wakepath "$dist"
else
    scripts/wheel.sh release >/dev/null
    rm -rf target/debian
    scripts/package-debian.sh
    cp target/debian/*.deb "$dist"
fi
cp target/wheels/wakepath-*.whl "$dist"
.cache/twine/bin/twine check --strict "$dist"/*.whl
say "wheel and Debian package"

scripts/package-rpm.sh "$dist"/*.deb "$dist"
.cache/cargo-sbom/bin/cargo-sbom --cargo-package wakepath-cli --output-format spdx_json_2_3 >"$dist/wakepath-$version.spdx.json"
(cd "$dist" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
say "all of target/dist"
(cd "$dist" && du -h --apparent-size -- *)
