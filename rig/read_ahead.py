#!/usr/bin/env python3
"""Records which requests a kernel makes for sequences of buffered reads, in a guest of the rig.

Example: rig/read_ahead.py 6.12 -o crates/sim/tests/data/read-ahead-6.12.txt
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RIG = Path(__file__).resolve().parent
# Pages at the begin of the device, beyond which no case reads.
PAGES = 16384

# A read: its first page and its number of pages.
Read = tuple[int, int]


def follow(start: int, pages: int, count: int) -> list[Read]:
    """Reads that follow each other."""
    return [(start + i * pages, pages) for i in range(count)]


def cases() -> Iterator[tuple[int, str, list[Read]]]:
    """read_ahead_kb, the hint of posix_fadvise(), and the reads of each case."""
    draw = random.Random(7)
    for ahead in (16, 128, 512, 4096):
        for pages in (1, 2, 3, 4, 8, 16, 17, 32, 64, 100, 256, 320, 512):
            yield ahead, "sequential", follow(0, pages, max(3, min(120, 3000 // pages)))
        yield ahead, "normal", follow(0, 1, 200)
        yield ahead, "normal", follow(777, 4, 100)
        yield ahead, "sequential", follow(1001, 3, 100)
        yield ahead, "random", follow(0, 4, 20)
        for hint, count in (("random", 30), ("normal", 60)):
            yield ahead, hint, [(draw.randrange(PAGES - 200), draw.randrange(1, 100)) for _ in range(count)]
        for hint in ("normal", "sequential"):
            yield ahead, hint, [(draw.randrange(400), draw.randrange(1, 8)) for _ in range(120)]
        yield ahead, "normal", [read for i in range(80) for read in ((i * 4, 4), (5000 + i * 4, 4))]
        yield ahead, "sequential", follow(PAGES - 300, 8, 37)
        yield ahead, "sequential", follow(PAGES - 100, 7, 14)
        yield ahead, "normal", [(i * 10, 2) for i in range(100)]
        yield ahead, "normal", [(1000 - i * 4, 4) for i in range(100)]
        yield ahead, "sequential", follow(0, 8, 40) + follow(0, 8, 60)


def compact(kernel: str, trace: str) -> Iterator[str]:
    """The trace of a guest as the test of the simulator reads it."""
    yield (
        f"# Requests that Linux {kernel} made for reads of a block device (rig/read_ahead.py). First its pages, and "
        "those of its largest request; then read_ahead_kb, the hint of posix_fadvise(), and for each read its pages "
        "and the requests."
    )
    reads: list[str] = []
    for line in [*trace.splitlines(), "CASE"]:
        if line.startswith(("CASE", "DEVICE")):
            if reads:
                yield ";".join(reads)
            reads = []
            if words := line.split()[1:]:
                head = " ".join(words)
                if line.startswith("DEVICE"):
                    yield f"device {head}"
                else:
                    reads = [f"{head} "]
        elif marked := re.search(r": R(\d+\+\d+)", line):
            text = f"{marked[1]}:"
            if reads[-1].endswith(" "):
                reads[-1] += text
            else:
                reads.append(text)
        elif queued := re.search(r"block_bio_queue: \S+ \S+ (\d+) \+ (\d+)", line):
            comma = "" if reads[-1].endswith(":") else ","
            reads[-1] += f"{comma}{int(queued[1]) // 8}+{int(queued[2]) // 8}"


def main() -> int:
    """Makes the cases, runs the guest, and writes what it recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", choices=["6.1", "6.12", "7.3"])
    parser.add_argument("-o", "--out", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cases").mkdir()
        for number, (ahead, hint, reads) in enumerate(cases()):
            text = "".join(f"{first} {count}\n" for first, count in reads)
            (folder / "cases" / f"{number:03}-{ahead}-{hint}").write_text(text)
        reader = folder / "read-ahead"
        subprocess.run(["gcc", "-O2", "-static", "-o", reader, RIG / "guest/read-ahead.c"], check=True)
        command = [RIG / "rig.py", "x86", "--kernel", options.kernel, "--out", folder / "out", "--timeout", "300"]
        command += ["--add", reader, "--add", folder / "cases", RIG / "guest/read-ahead.sh"]
        subprocess.run(command, check=True)
        trace = (folder / "out/trace.txt").read_text()
        options.out.write_text("".join(f"{line}\n" for line in compact(options.kernel, trace)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
