"""An NVMe drive with APST for a guest: a controller behind NVMe over TCP, which the kernel's own driver connects to.

QEMU's NVMe drive has no APST. This one declares the power states of a real one, keeps the table that it is given, and
forgets it when the kernel connects anew, as it does for a reset. It never sleeps itself. Its namespace is memory.

Standard output has a line for each event: `ready PORT` first, then `reset`, `set on:TABLE` and `get on:TABLE`, with the
table's 256 bytes in hexadecimal digits, and `off` for a table that is not in force. `set saved:` begins the line of a
table that is to survive resets, which this drive keeps like any other.
"""

import argparse
import fcntl
import socket
import struct
import sys
import threading

NQN = b"nqn.2026-11.wakepath:apst"
CONTROLLER = 1
IDENTIFY_BYTES = 4096
TABLE_BYTES = 256
BLOCK_SHIFT = 9
NAMESPACE_BYTES = 1 << 20
# Writes of at most this size come with their command, so that the drive never has to ask for data.
TRANSFER_BYTES = 8192
# WDC PC SN530 SDBPNPZ-256G-1006 in crates/hardware/data/nvme_power_states.csv, which a test compares with this: power
# in units of 0.1 mW, whether the drive does no I/O, entry and exit latency in microseconds.
POWER_STATES = [
    (35000, False, 0, 0),
    (24000, False, 0, 0),
    (19000, False, 0, 0),
    (250, True, 3900, 11000),
    (50, True, 5000, 39000),
]
# Numbers of the NVMe base specification: opcodes of the admin queue, features, status codes.
GET_LOG, IDENTIFY, SET_FEATURES, GET_FEATURES, ASYNC_EVENT, KEEP_ALIVE = 0x02, 0x06, 0x09, 0x0A, 0x0C, 0x18
POWER_MANAGEMENT, QUEUE_COUNT, APST = 0x02, 0x07, 0x0C
SUCCESS, INVALID_OPCODE, INVALID_FIELD, OUT_OF_RANGE = 0x00, 0x01, 0x02, 0x80
# Its commands on networks, and registers there.
FABRICS, PROPERTY_SET, CONNECT, PROPERTY_GET = 0x7F, 0x00, 0x01, 0x04
CAPABILITIES_AT, VERSION_AT, CONFIGURATION_AT, STATUS_AT = 0x00, 0x08, 0x14, 0x1C
# The NVM command set, ready within 10 s, contiguous queues of at most 128 entries.
CAPABILITIES = 1 << 37 | 20 << 24 | 1 << 16 | 127
VERSION = 0x00010300
# Opcodes of the NVM command set.
WRITE, READ = 0x01, 0x02
# Types of the TCP transport's packets.
CONNECTION_REQUEST, CONNECTION_RESPONSE, COMMAND, RESPONSE, DATA_TO_HOST = 0, 1, 4, 5, 7

# Status, result and data of a command.
Answer = tuple[int, int, bytes]


class Drive:
    """What the drive remembers."""

    def __init__(self) -> None:
        self.configuration = 0
        self.apst_on = False
        self.table = bytes(TABLE_BYTES)
        self.namespace = bytearray(NAMESPACE_BYTES)

    def reset(self) -> None:
        """Forgets all but the data."""
        self.configuration = 0
        self.apst_on = False
        self.table = bytes(TABLE_BYTES)
        print("reset", flush=True)

    def register(self, offset: int) -> int:
        """A register of the controller."""
        ready, shut_down = self.configuration & 1, 0x8 if self.configuration & 0xC000 else 0
        registers = {
            CAPABILITIES_AT: CAPABILITIES,
            VERSION_AT: VERSION,
            CONFIGURATION_AT: self.configuration,
            STATUS_AT: ready | shut_down,
        }
        return registers.get(offset, 0)

    def print_table(self, event: str) -> None:
        """Tells what happened to the table, and the table."""
        print(f"{event}{'on' if self.apst_on else 'off'}:{self.table.hex()}", flush=True)

    def set_feature(self, dword10: int, dword11: int, given: bytes) -> Answer:
        """Answers Set Features."""
        feature = dword10 & 0xFF
        if feature == APST and len(given) == TABLE_BYTES:
            self.apst_on, self.table = dword11 & 1 == 1, given
            self.print_table("set saved:" if dword10 >> 31 else "set ")
            return SUCCESS, 0, b""
        # One queue for I/O: the result has both counts less one.
        return (SUCCESS if feature == QUEUE_COUNT else INVALID_FIELD), 0, b""

    def get_feature(self, dword10: int) -> Answer:
        """Answers Get Features about the value in force; of others, such as a saved one, it has none."""
        feature, is_other_value = dword10 & 0xFF, dword10 >> 8 & 0x7
        if feature == APST and not is_other_value:
            self.print_table("get ")
            return SUCCESS, int(self.apst_on), self.table
        return (SUCCESS if feature == POWER_MANAGEMENT else INVALID_FIELD), 0, b""

    def read_or_write(self, command: bytes, given: bytes) -> Answer:
        """Answers a command about the namespace."""
        opcode = command[0]
        first, count = struct.unpack_from("<QH", command, 40)
        begin, end = first << BLOCK_SHIFT, first + count + 1 << BLOCK_SHIFT
        if opcode not in (READ, WRITE):
            return INVALID_OPCODE, 0, b""
        if end > NAMESPACE_BYTES:
            return OUT_OF_RANGE, 0, b""
        if opcode == READ:
            return SUCCESS, 0, bytes(self.namespace[begin:end])
        if len(given) != end - begin:
            return INVALID_FIELD, 0, b""
        self.namespace[begin:end] = given
        return SUCCESS, 0, b""


class Queue:
    """A queue of commands, which is a connection."""

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        # 0 is the admin queue.
        self.number = 0

    def answer(self, command: bytes, given: bytes) -> Answer:
        """Answers a command."""
        opcode = command[0]
        if opcode == FABRICS:
            return SUCCESS, self.fabrics_result(command), b""
        if self.number:
            return self.drive.read_or_write(command, given)
        # The namespace, the length of the data, and the first two words of the command's own.
        namespace, length, dword10, dword11 = struct.unpack_from("<I24xI4xII", command, 4)
        if opcode == IDENTIFY:
            return SUCCESS, 0, identify(dword10 & 0xFF, namespace)
        if opcode == SET_FEATURES:
            return self.drive.set_feature(dword10, dword11, given)
        if opcode == GET_FEATURES:
            return self.drive.get_feature(dword10)
        if opcode == GET_LOG:
            return SUCCESS, 0, bytes(length)
        return (SUCCESS if opcode == KEEP_ALIVE else INVALID_OPCODE), 0, b""

    def fabrics_result(self, command: bytes) -> int:
        """The result of a command that exists only on a network."""
        kind = command[4]
        if kind == CONNECT:
            (self.number,) = struct.unpack_from("<H", command, 42)
            if self.number == 0:
                # The kernel connects anew for a reset.
                self.drive.reset()
            return CONTROLLER
        (offset,) = struct.unpack_from("<I", command, 44)
        if kind == PROPERTY_SET and offset == CONFIGURATION_AT:
            (self.drive.configuration,) = struct.unpack_from("<I", command, 48)
        return self.drive.register(offset) if kind == PROPERTY_GET else 0


def identify(what: int, namespace: int) -> bytes:
    """The data of Identify: about the namespace, the controller, or a list of the namespaces above a number."""
    if what == 0 and namespace == 1:
        return identify_namespace()
    if what == 1:
        return identify_controller()
    return struct.pack("<I4092x", 1 if what == 2 and namespace < 1 else 0)


def identify_namespace() -> bytes:
    """What the drive says about its namespace."""
    data = bytearray(IDENTIFY_BYTES)
    blocks = NAMESPACE_BYTES >> BLOCK_SHIFT
    # Size, capacity, use; an identifier; the only format.
    struct.pack_into("<QQQ", data, 0, blocks, blocks, blocks)
    data[104:120] = b"wakepath apst ns"
    data[130] = BLOCK_SHIFT
    return bytes(data)


def identify_controller() -> bytes:
    """What the drive says about itself."""
    data = bytearray(IDENTIFY_BYTES)
    serial, model, firmware = b"apst-1".ljust(20), b"APST test drive".ljust(40), b"1".ljust(8)
    struct.pack_into("<HH20s40s8s", data, 0, 0x1B36, 0x1AF4, serial, model, firmware)
    # In units of 4 KiB, as a power of two.
    data[77] = (TRANSFER_BYTES // 4096).bit_length() - 1
    struct.pack_into("<HI", data, 78, CONTROLLER, VERSION)
    data[263] = len(POWER_STATES) - 1
    data[265] = 1
    # Keep-alive in units of 100 ms; sizes of queue entries, as powers of two; commands at a time, namespaces; SGLs.
    struct.pack_into("<H", data, 320, 10)
    data[512], data[513] = 0x66, 0x44
    struct.pack_into("<HI", data, 514, 128, 1)
    struct.pack_into("<I", data, 536, 1)
    struct.pack_into("<256s", data, 768, NQN)
    # A command with its data, and a response, in units of 16 bytes.
    struct.pack_into("<II", data, 1792, (64 + TRANSFER_BYTES) // 16, 1)
    data[1803] = 1
    for index, (power, no_io, entry, leave) in enumerate(POWER_STATES):
        rank = index if no_io else 0
        struct.pack_into("<HxBII4B", data, 2048 + 32 * index, power, 1 | no_io << 1, entry, leave, *[rank] * 4)
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


def serve_queue(peer: socket.socket, queue: Queue) -> None:
    """Answers the commands of one queue until its connection ends."""
    with peer:
        while len(head := read_exactly(peer, 8)) == 8:
            kind, _, header_length, data_offset, length = struct.unpack("<BBBBI", head)
            body = read_exactly(peer, length - 8)
            if kind == CONNECTION_REQUEST:
                peer.sendall(struct.pack("<BBBBIHBBI112x", CONNECTION_RESPONSE, 0, 128, 0, 128, 0, 0, 0, 1 << 22))
                continue
            if kind != COMMAND:
                return
            command = body[: header_length - 8]
            if command[0] == ASYNC_EVENT and queue.number == 0:
                # It is answered when something happens, and nothing does.
                continue
            (number,) = struct.unpack_from("<H", command, 2)
            status, result, data = queue.answer(command, body[data_offset - 8 :] if data_offset else b"")
            # No more than there is room for.
            data = data[: struct.unpack_from("<I", command, 32)[0]]
            if data:
                head = struct.pack("<BBBBIHHII4x", DATA_TO_HOST, 4, 24, 24, 24 + len(data), number, 0, 0, len(data))
                peer.sendall(head + data)
            peer.sendall(struct.pack("<BBBBIQHHHH", RESPONSE, 0, 24, 0, 24, result, 0, 0, number, status << 1))


def switch_loopback_on() -> None:
    """A guest without a network has switched off even its loopback."""
    with socket.socket() as some:
        # SIOCSIFFLAGS with IFF_UP | IFF_LOOPBACK | IFF_RUNNING.
        fcntl.ioctl(some, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x8 | 0x40))


def main() -> int:
    """Serves the drive until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=4420, help="port at 127.0.0.1; 0: any that is free")
    parser.add_argument("--loopback", action="store_true", help="switch the loopback interface on, as root")
    options = parser.parse_args()
    if options.loopback:
        switch_loopback_on()
    drive = Drive()
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        print(f"ready {listener.getsockname()[1]}", flush=True)
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=serve_queue, args=(peer, Queue(drive)), daemon=True).start()


if __name__ == "__main__":
    sys.exit(main())
