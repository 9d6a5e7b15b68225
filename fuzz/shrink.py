#!/usr/bin/env python3
"""Cuts a real trace.dat (version 6) or perf.data down to a seed of a few kilobytes: the same format, less of it.

Example: trace-cmd convert -i trace.dat -o 6.dat --file-version 6 --compression none && fuzz/shrink.py 6.dat seed.dat
"""

import struct
import sys
from pathlib import Path

KEPT_EVENTS = {b"cpu_idle", b"sched_switch", b"sched_waking", b"hrtimer_start", b"hrtimer_expire_entry", b"tick_stop"}
TICK = (b" tick_sched_timer", b" tick_nohz_handler")
PERF_HEADER = 104
PERF_TRACING_DATA = 1
PERF_LOST = 2
PERF_SAMPLE = 9
PERF_FINISHED_ROUND = 68
MOST_RECORDS = 60
LARGEST_FEATURE = 1000


class Cursor:
    """A place in little-endian bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, size: int) -> bytes:
        """The next bytes."""
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """The next number."""
        return int.from_bytes(self.take(size), "little")

    def text(self) -> bytes:
        """What comes before the next zero, with it."""
        return self.take(self.data.index(b"\0", self.at) + 1 - self.at)


def number(value: int, size: int) -> bytes:
    """A little-endian number."""
    return value.to_bytes(size, "little")


def block(data: bytes, size_bytes: int = 8) -> bytes:
    """Bytes after their size."""
    return number(len(data), size_bytes) + data


def description(at: Cursor) -> bytes:
    """What trace.dat and perf.data have in common: the formats of events and the kernel's symbols."""
    out = at.take(10) + at.text() + at.take(6)
    for _ in range(2):
        out += at.text() + block(at.take(at.number(8)))
    for _ in range(at.number(4)):
        at.take(at.number(8))
    out += number(0, 4)
    systems = []
    for _ in range(at.number(4)):
        name = at.text()
        formats = [at.take(at.number(8)) for _ in range(at.number(4))]
        kept = [text for text in formats if text.split(b"\n")[0].removeprefix(b"name: ") in KEPT_EVENTS]
        if kept:
            systems.append(name + number(len(kept), 4) + b"".join(map(block, kept)))
    out += number(len(systems), 4) + b"".join(systems)
    symbols = at.take(at.number(4)).split(b"\n")
    out += block(b"".join(line + b"\n" for line in symbols if line.endswith(TICK)), 4)
    at.take(at.number(4))
    return out + block(b"", 4)


def shrink_trace_dat(data: bytes) -> bytes:
    """One page of each CPU, from the middle."""
    at = Cursor(data)
    out = description(at)
    at.take(at.number(8))
    out += block(b"")
    cpus = at.number(4)
    out += number(cpus, 4)
    section = at.take(10)
    if section == b"options  \0":
        out += section
        while option := at.number(2):
            content = at.take(at.number(4))
            if len(content) <= LARGEST_FEATURE:
                out += number(option, 2) + block(content, 4)
        out += number(0, 2)
        section = at.take(10)
    places = [(at.number(8), at.number(8)) for _ in range(cpus)]
    page = 4096
    start = -(-(len(out) + 10 + 16 * cpus) // page) * page
    pages = b""
    table = b""
    for offset, size in places:
        middle = offset + size // page // 2 * page
        kept = data[middle : middle + min(size, page)]
        table += struct.pack("<QQ", start + len(pages), len(kept))
        pages += kept
    return (out + section + table).ljust(start, b"\0") + pages


def records(data: bytes) -> bytes:
    """The first records that matter."""
    out = b""
    found = 0
    at = 0
    while at < len(data) and found < MOST_RECORDS:
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if kind in {PERF_LOST, PERF_SAMPLE, PERF_FINISHED_ROUND}:
            out += data[at : at + size]
            found += 1
        at += size
    return out


def shrink_perf_data(data: bytes) -> bytes:
    """The first records, the formats, and the small features."""
    header = Cursor(data, 8)
    header.take(16)
    attributes, events, _ = ((header.number(8), header.number(8)) for _ in range(3))
    flags = int.from_bytes(data[72:PERF_HEADER], "little")
    features = Cursor(data, sum(events))
    # Attributes name places of their own, which come before the events.
    start = data[PERF_HEADER : events[0]]
    kept = records(data[events[0] : sum(events)])
    sections: list[bytes] = []
    kept_flags = 0
    for bit in range(256):
        if not flags >> bit & 1:
            continue
        offset, size = features.number(8), features.number(8)
        content = data[offset : offset + size]
        if bit == PERF_TRACING_DATA:
            content = description(Cursor(content)) + block(b"")
        if len(content) <= LARGEST_FEATURE or bit == PERF_TRACING_DATA:
            kept_flags |= 1 << bit
            sections.append(content)
    out = data[:24] + struct.pack("<QQQQQQ", *attributes, events[0], len(kept), 0, 0)
    out += kept_flags.to_bytes(32, "little") + start + kept
    place = len(out) + 16 * len(sections)
    for content in sections:
        out += struct.pack("<QQ", place, len(content))
        place += len(content)
    return out + b"".join(sections)


def main() -> None:
    """Shrinks one file."""
    source, target = map(Path, sys.argv[1:])
    data = source.read_bytes()
    shrink = shrink_perf_data if data.startswith(b"PERFILE2") else shrink_trace_dat
    target.write_bytes(shrink(data))


if __name__ == "__main__":
    main()
