#!/usr/bin/env python3
"""A governor that answers lines: the deepest state that the next timer leaves time for."""

import sys

tick, states = 0, []  # states: (exit latency, target residency)
for line in sys.stdin:
    word, *fields = line.rstrip("\n").split(",")
    if word == "tick":
        tick = int(fields[0])
    elif word == "state":
        states.append([int(fields[1]), int(fields[2]), fields[4] == "1"])
    elif word == "disable":
        states[int(fields[0])][2] = fields[1] == "1"
    elif word == "select":
        sleep, limit = int(fields[0]), int(fields[3])
        fits = [
            i
            for i, (latency, residency, off) in enumerate(states)
            if not off and latency <= limit and residency <= sleep
        ]
        print(f"{fits[-1] if fits else 0},{int(sleep > tick)}", flush=True)
