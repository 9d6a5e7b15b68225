"""Puts into etcd at a fixed rate, by a few clients: `etcdctl check perf` always has 50.

Key, value, rate and duration are those of the check's small load, so that a put asks for as much.
"""

import base64
import http.client
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from measured_disk import COMMAND_SECONDS, RecipeError

# Clients of `etcdctl check perf`.
CHECK_CLIENTS = 50
PUTS_PER_SECOND = 150
DURATION_SECONDS = 60
KEY_PREFIX = b"/etcdctl-check-perf/"
KEY_BYTES = 256
RANDOM_KEY_BYTES = 8
VALUE = bytes(1024)


def put_at_fixed_rate(address: str, clients: int) -> None:
    """Puts by so many clients, in turn: each at its time of a common plan, or once its client is free."""
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as threads:
        ends = [threads.submit(put_as_one_client, address, began, (first, clients)) for first in range(clients)]
        for end in ends:
            end.result()


def put_as_one_client(address: str, began: float, turn: tuple[int, int]) -> None:
    """Does the puts of one client: of each round of `clients` puts, the one at place `first`."""
    first, clients = turn
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=COMMAND_SECONDS)
    try:
        for number in range(first, PUTS_PER_SECOND * DURATION_SECONDS, clients):
            time.sleep(max(0.0, began + number / PUTS_PER_SECOND - time.monotonic()))
            put_random_key(connection)
    finally:
        connection.close()


def put_random_key(connection: http.client.HTTPConnection) -> None:
    """Puts over etcd's gateway from JSON, whose keys and values are in base64."""
    key = KEY_PREFIX + os.urandom(RANDOM_KEY_BYTES).ljust(KEY_BYTES, b"\0")
    pair = {name: base64.b64encode(data).decode() for name, data in (("key", key), ("value", VALUE))}
    try:
        connection.request("POST", "/v3/kv/put", json.dumps(pair))
        reply = connection.getresponse()
        text = reply.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise RecipeError(f"etcd does not answer a put: {error}") from error
    if reply.status != http.HTTPStatus.OK:
        raise RecipeError(f"etcd refuses a put: {reply.status} {text.strip()}")
