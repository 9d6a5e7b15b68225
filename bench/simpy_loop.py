"""The closed loops of wakepath_sim::pattern in SimPy, one process per token.

Arguments: queueing or delays, tokens, rounds. Prints CPU seconds, stages finished and the time of the last one in ns.
"""

import sys
import time
from collections.abc import Generator
from itertools import count

import simpy

SERVERS = (1, 8, 1, 1)


def drive(of: int, number: int) -> int:
    """How long the drive takes, in ns."""
    return 80_000 + ((of * 2_654_435_761 + number * 40_503) >> 7 & 0x3FFF)


def delays(env: simpy.Environment, token: int, rounds: int) -> Generator[simpy.Event, None, None]:
    """Submission, drive, interrupt and resume, `rounds` times and without waiting for anyone."""
    for turn in range(rounds):
        yield env.timeout(5_000)
        yield env.timeout(drive(token, turn))
        yield env.timeout(3_000)
        yield env.timeout(4_000)


class Queueing:
    """All tokens make `rounds` rounds together, and wait for one another at the stages."""

    def __init__(self, env: simpy.Environment, rounds: int) -> None:
        self.env = env
        self.to_begin = rounds
        self.stages = [simpy.Resource(env, servers) for servers in SERVERS]
        self.numbers = count()

    def token(self) -> Generator[simpy.Event, None, None]:
        """Round after round until all are begun."""
        env = self.env
        submission, storage, interrupt, resume = self.stages
        while self.to_begin > 0:
            self.to_begin -= 1
            with submission.request() as turn:
                yield turn
                yield env.timeout(5_000)
            with storage.request() as turn:
                yield turn
                yield env.timeout(drive(0, next(self.numbers)))
            with interrupt.request() as turn:
                yield turn
                yield env.timeout(3_000)
            with resume.request() as turn:
                yield turn
                yield env.timeout(4_000)


def main() -> None:
    kind, tokens, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    env = simpy.Environment()
    total = rounds
    if kind == "queueing":
        loop = Queueing(env, rounds)
        for _ in range(tokens):
            env.process(loop.token())
    else:
        total = rounds * tokens
        for token in range(tokens):
            env.process(delays(env, token, rounds))
    start = time.process_time()
    env.run()
    print(time.process_time() - start, total * 4, env.now)


if __name__ == "__main__":
    main()
