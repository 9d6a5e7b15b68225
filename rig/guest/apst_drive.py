"""An NVMe drive with APST for a guest: a controller behind NVMe over TCP, which the kernel's own driver connects to.

QEMU's NVMe drive has no power states. This one has, keeps the table that it is given, and forgets it in a reset. It has
no namespace, so that nothing can be read or written.
"""

import fcntl
import socket
import struct
import sys
import threading

PORT = 4420
CONTROLLER = 1
IDENTIFY_BYTES = 4096
TABLE_BYTES = 256
# Power in centiwatts, whether it does no I/O, entry and exit latency in microseconds.
POWER_STATES = [(450, 0, 0, 0), (300, 0, 0, 0), (200, 0, 0, 0), (5, 2, 2000, 3000), (1, 2, 8000, 30000)]
# Numbers of the NVMe base specification: opcodes, features, PDU types.
SET_FEATURES, GET_FEATURES, GET_LOG, IDENTIFY, ASYNC_EVENT, FABRICS = 0x09, 0x0A, 0x02, 0x06, 0x0C, 0x7F
PROPERTY_SET, CONNECT, PROPERTY_GET = 0x00, 0x01, 0x04
APST = 0x0C
CAPABILITIES = 1 << 37 | 20 << 24 | 1 << 16 | 127
VERSION = 0x00010300


class Controller:
    """What the drive remembers."""

    def __init__(self) -> None:
        self.configuration = 0
        self.reset()

    def reset(self) -> None:
        """Forgets what it was told."""
        self.apst_on = 0
        self.table = bytes(TABLE_BYTES)

    def property_value(self, offset: int) -> int:
        """A register: capabilities, version, configuration, or status."""
        ready = self.configuration & 1 | (0x8 if self.configuration & 0xC000 else 0)
        return {0x00: CAPABILITIES, 0x08: VERSION, 0x14: self.configuration, 0x1C: ready}.get(offset, 0)

    def answer(self, command: bytes, given: bytes) -> tuple[int, bytes]:
        """The result of a command, and the data that it returns."""
        opcode = command[0]
        (dword10, dword11) = struct.unpack_from("<II", command, 40)
        (length,) = struct.unpack_from("<I", command, 32)
        if opcode == FABRICS:
            return self.answer_fabrics(command), b""
        if opcode == IDENTIFY:
            return 0, identify() if dword10 & 0xFF == 1 else bytes(IDENTIFY_BYTES)
        if opcode == SET_FEATURES and dword10 & 0xFF == APST:
            self.apst_on, self.table = dword11 & 1, given[:TABLE_BYTES]
        if opcode == GET_FEATURES and dword10 & 0xFF == APST:
            return self.apst_on, self.table
        return 0, bytes(length) if opcode == GET_LOG else b""

    def answer_fabrics(self, command: bytes) -> int:
        """The result of a command that exists only on a network."""
        kind = command[4]
        (offset,) = struct.unpack_from("<I", command, 44)
        if kind == CONNECT:
            (queue,) = struct.unpack_from("<H", command, 42)
            if queue == 0:
                # The kernel connects anew for a reset.
                self.reset()
            return CONTROLLER
        if kind == PROPERTY_SET:
            (self.configuration,) = struct.unpack_from("<I", command, 48)
            return 0
        return self.property_value(offset) if kind == PROPERTY_GET else 0


def identify() -> bytes:
    """What the drive says about itself."""
    data = bytearray(IDENTIFY_BYTES)
    struct.pack_into(
        "<HH20s40s8s", data, 0, 0x1B36, 0x1AF4, b"apst-1".ljust(20), b"APST test drive".ljust(40), b"1".ljust(8)
    )
    struct.pack_into("<HI", data, 78, CONTROLLER, VERSION)
    data[263] = len(POWER_STATES) - 1
    data[265] = 1
    struct.pack_into("<H", data, 320, 10)
    data[512], data[513] = 0x66, 0x44
    struct.pack_into("<HI", data, 514, 128, 1)
    struct.pack_into("<I", data, 536, 1)
    struct.pack_into("<256s", data, 768, b"nqn.2026-11.wakepath:apst")
    struct.pack_into("<II", data, 1792, 4, 1)
    data[1803] = 1
    for index, (power, idle, entry, leave) in enumerate(POWER_STATES):
        struct.pack_into("<HBBII", data, 2048 + 32 * index, power, 0, idle, entry, leave)
    return bytes(data)


def read_exactly(peer: socket.socket, length: int) -> bytes:
    """So many bytes; fewer at the end of the connection."""
    data = b""
    while len(data) < length:
        piece = peer.recv(length - len(data))
        if not piece:
            break
        data += piece
    return data


def serve_queue(peer: socket.socket, controller: Controller) -> None:
    """Answers the commands of one queue until its connection ends."""
    with peer:
        while len(head := read_exactly(peer, 8)) == 8:
            kind, _, header_length, data_offset, length = struct.unpack("<BBBBI", head)
            body = read_exactly(peer, length - 8)
            if kind == 0:
                peer.sendall(struct.pack("<BBBBIHBBI112x", 1, 0, 128, 0, 128, 0, 0, 0, 1 << 22))
                continue
            if kind != 4:
                return
            command = body[: header_length - 8]
            if command[0] == ASYNC_EVENT:
                continue
            (number,) = struct.unpack_from("<H", command, 2)
            result, data = controller.answer(command, body[data_offset - 8 :] if data_offset else b"")
            if data:
                head = struct.pack("<BBBBIHHII4x", 7, 4, 24, 24, 24 + len(data), number, 0, 0, len(data))
                peer.sendall(head + data)
            peer.sendall(struct.pack("<BBBBIQHHHH", 5, 0, 24, 0, 24, result, 0, 0, number, 0))


def switch_loopback_on() -> None:
    """A guest without a network has switched off even its loopback."""
    with socket.socket() as some:
        # SIOCSIFFLAGS with IFF_UP | IFF_LOOPBACK | IFF_RUNNING.
        fcntl.ioctl(some, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x8 | 0x40))


def main() -> int:
    """Serves the drive until it is killed."""
    switch_loopback_on()
    controller = Controller()
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        print("ready", flush=True)
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=serve_queue, args=(peer, controller), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
