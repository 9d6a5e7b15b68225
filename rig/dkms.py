#!/usr/bin/env python3
"""Installs the kernel module in module/ with Debian's own dkms, for a kernel that need not run here, into a folder.

Nothing of this machine changes, and no root is needed: dkms comes from its package, unpacked, and works in folders of
its own. Example: rig/dkms.py --kernel 6.12 --out target/dkms
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headers import headers_tree
from kernels import packaged
from packages import REPOSITORY, Packages, RigError, exit_status

SOURCE = REPOSITORY / "module"


def configuration() -> dict[str, str]:
    """What dkms.conf says, by key."""
    return dict(re.findall(r'^(\w+(?:\[0\])?)="(.*)"$', (SOURCE / "dkms.conf").read_text(), re.MULTILINE))


def install(kernel: str, out: Path) -> Path:
    """Builds and installs the module for a kernel; where it is then."""
    guest = packaged("x86", kernel)
    release = guest.release
    dkms = Packages("amd64").unpacked("dkms") / "usr/sbin/dkms"
    said = configuration()
    name, version = said["PACKAGE_NAME"], said["PACKAGE_VERSION"]
    # dkms insists that the kernel that it installs into is there.
    modules = out / release
    shutil.rmtree(modules, ignore_errors=True)
    modules.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="wakepath-dkms-") as folder:
        scratch = Path(folder)
        headers = headers_tree(guest.headers, release, scratch)
        # Where a package of ours, or the reader of docs/guides/psd.md, puts the source.
        shutil.copytree(SOURCE, scratch / "src" / f"{name}-{version}")
        (scratch / "tree").mkdir()
        done = subprocess.run(
            [
                *("bash", str(dkms), "install", "-m", name, "-v", version, "-k", release, "--arch", "x86_64"),
                *("--dkmstree", str(scratch / "tree"), "--sourcetree", str(scratch / "src")),
                *("--kernelsourcedir", str(headers), "--installtree", str(out.resolve()), "--no-depmod"),
            ],
            # Type information of the module needs pahole, which comes with the headers' dependencies.
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "MAKEFLAGS": "CONFIG_DEBUG_INFO_BTF_MODULES="},
            capture_output=True,
            text=True,
            check=False,
        )
        installed = modules / said["DEST_MODULE_LOCATION[0]"].strip("/") / f"{said['BUILT_MODULE_NAME[0]']}.ko"
        if done.returncode != 0 or not installed.is_file():
            logs = "".join(log.read_text() for log in (scratch / "tree").rglob("make.log"))
            raise RigError(f"dkms failed:\n{done.stdout}{done.stderr}{logs}")
    return installed


def main() -> int:
    """0: installed, 2: not, 3: something that it takes is not there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", choices=["6.1", "6.12"], default="6.1", help="6.1 (default) or 6.12")
    parser.add_argument("--out", type=Path, required=True, help="folder that stands for /lib/modules")
    options = parser.parse_args()

    def work() -> int:
        print(install(options.kernel, options.out))
        return 0

    return exit_status("dkms", work)


if __name__ == "__main__":
    sys.exit(main())
