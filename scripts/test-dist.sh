#!/bin/bash
# Tests `scripts/dist.sh quick`: the files of a release are there, their checksums hold, the packages have program, units, man
# pages and completions, and the crate archives need nothing outside of themselves.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/dist.sh quick
cd target/dist

fail() {
    echo "test-dist: $*" >&2
    exit 1
}

sha256sum --check --quiet --strict SHA256SUMS
for pattern in '*.whl' '*.deb' '*.rpm' '*.spdx.json' 'crates/wakepath-cli-*.crate'; do
    mapfile -t found < <(compgen -G "$pattern" || true)
    [ ${#found[@]} = 1 ] || fail "$pattern: ${#found[@]} files in place of one"
    grep -q "  ${found[0]}\$" SHA256SUMS || fail "${found[0]} has no checksum"
done

in_both=(/usr/bin/wakepath /etc/wakepath/daemon.toml /usr/lib/systemd/system/wakepath.service
    /usr/lib/systemd/system/wakepath-settings.service /usr/lib/systemd/system/wakepath-settings-kept.timer
    /usr/lib/udev/rules.d/60-wakepath-settings.rules /usr/share/man/man1/wakepath.1.gz /usr/share/man/man1/wakepath-daemon.1.gz
    /usr/share/bash-completion/completions/wakepath /usr/share/fish/vendor_completions.d/wakepath.fish
    /usr/share/doc/wakepath/copyright)
deb_files=$(dpkg-deb --contents ./*.deb | sed 's/.* \.\//\//')
rpm_files=$(rpm --query --list --package ./*.rpm)
for file in "${in_both[@]}"; do
    grep -qx "$file" <<<"$deb_files" || fail "the .deb has no $file"
    grep -qx "$file" <<<"$rpm_files" || fail "the .rpm has no $file"
done
grep -qx /usr/share/zsh/vendor-completions/_wakepath <<<"$deb_files" || fail "the .deb has no completions of zsh"
grep -qx /usr/share/zsh/site-functions/_wakepath <<<"$rpm_files" || fail "the .rpm has no completions of zsh"
rpm --query --configfiles --package ./*.rpm | grep -qx /etc/wakepath/daemon.toml || fail "the .rpm replaces changed configuration"
rpm --query --requires --package ./*.rpm | grep -q '^libc.so.6' || fail "the .rpm does not ask for the C library"
# The same program in both.
mkdir -p unpacked/deb unpacked/rpm
dpkg-deb --extract ./*.deb unpacked/deb
(cd unpacked/rpm && rpm2cpio ../../*.rpm | cpio --extract --make-directories --quiet)
cmp unpacked/deb/usr/bin/wakepath unpacked/rpm/usr/bin/wakepath || fail "the packages have different programs"
unpacked/rpm/usr/bin/wakepath --version | grep -q '^wakepath ' || fail "the program of the .rpm does not run"
rm -r unpacked

python3 - <<'CHECK'
import glob, json, os, re, tarfile, tomllib

with open(glob.glob("*.spdx.json")[0]) as file:
    components = json.load(file)
assert components["spdxVersion"] == "SPDX-2.3", components["spdxVersion"]
names = {package["name"] for package in components["packages"]}
assert {"wakepath-cli", "wakepath-sim", "serde"} <= names, sorted(names)

archives = sorted(glob.glob("crates/*.crate"))
assert len(archives) >= 20, archives
for path in archives:
    with tarfile.open(path) as archive:
        root = archive.getnames()[0].split("/")[0]
        manifest = tomllib.loads(archive.extractfile(f"{root}/Cargo.toml").read().decode())
        files = set(archive.getnames())
        sources = {name: archive.extractfile(name).read().decode() for name in files if re.search(r"/(src/.*|build)\.rs$", name)}
    # A crate finds what it includes inside of its own folder.
    for name, text in sources.items():
        for included in re.findall(r'include_(?:str|bytes)!\(\s*"([^"]+)"', text):
            inside = os.path.normpath(os.path.join(os.path.dirname(name), included))
            assert inside in files, f"{path}: {name} includes {included}"
    package = manifest["package"]
    for key in ["description", "license", "readme", "keywords", "categories", "version"]:
        assert package.get(key), f"{path}: no {key}"
    assert f"{root}/{package['readme']}" in files, f"{path}: no {package['readme']}"
    for table in ["dependencies", "build-dependencies", "dev-dependencies"]:
        for name, dependency in manifest.get(table, {}).items():
            assert "path" not in dependency, f"{path}: {name} by path"
            assert dependency.get("version"), f"{path}: {name} without a version"
study = tarfile.open(glob.glob("crates/wakepath-study-*.crate")[0])
assert any(name.endswith("/data/workloads/iowait-rk3399.fio") for name in study.getnames()), "the study crate has no workloads"
print(f"{len(archives)} crate archives, {len(names)} components")
CHECK
