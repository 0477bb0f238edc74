"""`python -m tests.azure_sdk.value_table [SDK …]`: AMQP values as programs on SDKs see them.

A value is the application property `v` of a message, or its body where AMQP gives it no place among
properties. The table has a type and a text for each SDK; NOTHING: the SDK gives the program no
message. It is `values.toml`, which the command writes, and tests check.
"""

import json
import sys
import tempfile
import tomllib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from azure.servicebus import ServiceBusClient
from azure.servicebus.amqp import AmqpMessageBodyType

from bendybus.amqp import encoding
from bendybus.amqp import values as amqp
from bendybus.amqp.values import Array, Described, Symbol
from bendybus.client import ServiceBusMessage
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.messages.values import Encoded
from tests.azure_sdk.operation_bus import OperationBus
from tests.sdks.dotnet_bus import DotnetBus
from tests.sdks.programs import PROGRAMS, Run

TABLE: Final = Path(__file__).parent / "values.toml"
SDKS: Final = ("python", "javascript", "java", "go", "dotnet")
NOTHING: Final = "no message"
WAIT_S: Final = 8.0
ENDS_S: Final = 200.0
_AT_ONCE: Final = 8
_TICKS: Final = 937_840_000_000
# A Binary Integer Decimal writes 1.5 as 15 with a biased exponent of -1.
_FIFTEEN: Final = 15
VALUES: Final[Mapping[str, Any]] = {
    "null": None,
    "boolean": True,
    "ubyte": amqp.Ubyte(200),
    "ushort": amqp.Ushort(60_000),
    "uint": amqp.Uint(4_000_000_000),
    "ulong": amqp.Ulong(2**64 - 1),
    "byte": amqp.Byte(-100),
    "short": amqp.Short(-30_000),
    "int": amqp.Int(-(2**31)),
    "long": 2**63 - 1,
    "float": amqp.Float(1.5),
    "double": 1e300,
    "decimal32": amqp.Decimal32((100 << 23 | _FIFTEEN).to_bytes(4, "big")),
    "decimal64": amqp.Decimal64((397 << 53 | _FIFTEEN).to_bytes(8, "big")),
    "decimal128": amqp.Decimal128((6_175 << 113 | _FIFTEEN).to_bytes(16, "big")),
    "char": amqp.Char(ord("é")),
    "timestamp": amqp.Timestamp(1_700_000_000_123),
    "uuid": UUID("6f5e4d3c-2b1a-4098-8765-432100fedcba"),
    "binary": b"\x00\x01\xff",
    "string": "é",
    "symbol": Symbol("abc"),
    "described: com.microsoft:timespan": Described(Symbol("com.microsoft:timespan"), _TICKS),
    "described: com.microsoft:uri": Described(Symbol("com.microsoft:uri"), "https://a/b"),
    "described: com.microsoft:datetime-offset": Described(
        Symbol("com.microsoft:datetime-offset"), 638_356_000_000_000_000
    ),
}
# The body of a message.
BODIES: Final[Mapping[str, Any]] = {
    "list": [1, "a"],
    "map": {"a": 1},
    "array": Array(amqp.INT, [amqp.Int(1), amqp.Int(2)]),
}
TYPES: Final = (*VALUES, *BODIES)


def _queue(kind: str, sdk: str) -> str:
    return f"{TYPES.index(kind)}-{sdk}"


def _message(kind: str) -> Any:
    if kind in BODIES:
        return AmqpAnnotatedMessage(value_body=Encoded(encoding.encode(BODIES[kind])))
    made = Encoded(encoding.encode(VALUES[kind]))
    return ServiceBusMessage(b"x", application_properties={"v": made})


class ValueRun:
    """Programs of some SDKs, all but that for .NET, that receive every value."""

    def __init__(self, folder: Path, sdks: Collection[str]) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._results: dict[tuple[str, str], Future[Any]] = {}
        self._ends: list[Callable[[], None]] = [self._pool.shutdown]
        self._start(folder, sdks)

    def found(self, kind: str, sdk: str) -> str:
        """Return a value as an SDK shows it. Raises AssertionError if its program failed."""
        found: str = self._results[kind, sdk].result(ENDS_S)["value"]
        return found

    def end(self) -> None:
        """End all of it."""
        for each in reversed(self._ends):
            each()

    def _start(self, folder: Path, sdks: Collection[str]) -> None:
        bus = OperationBus(folder, [_queue(kind, sdk) for kind in TYPES for sdk in sdks])
        self._ends.append(bus.end)
        with bus.secured.client() as client:
            for sdk in sdks:
                for kind in TYPES:
                    bus.administration.create_queue(_queue(kind, sdk))
                    with client.get_queue_sender(_queue(kind, sdk)) as sender:
                        sender.send_messages(_message(kind))
        for sdk in sdks:
            results = self._python(bus) if sdk == "python" else self._program(bus, sdk)
            for kind, result in zip(TYPES, results, strict=True):
                self._results[kind, sdk] = result

    def _program(self, bus: OperationBus, sdk: str) -> list[Future[Any]]:
        [program] = [each for each in PROGRAMS if each.sdk == sdk]
        program.built()
        jobs = [
            {
                "id": kind,
                "operation": "value",
                "entity": _queue(kind, sdk),
                "topic": False,
                "send": bus.connection_string(_queue(kind, sdk), "Send"),
                "listen": bus.connection_string(_queue(kind, sdk), "Listen"),
            }
            for kind in TYPES
        ]
        run: Run = program.start(jobs, bus.ca_file)
        self._ends.append(run.end)
        return [run.results[kind] for kind in TYPES]

    def _python(self, bus: OperationBus) -> list[Future[Any]]:
        def value(kind: str) -> Mapping[str, str]:
            name = _queue(kind, "python")
            string = bus.connection_string(name, "Listen")
            with (
                ServiceBusClient.from_connection_string(
                    string, connection_verify=bus.ca_file, retry_total=0
                ) as client,
                client.get_queue_receiver(name) as receiver,
            ):
                try:
                    found: list[Any] = receiver.receive_messages(1, max_wait_time=WAIT_S)
                except Exception as error:  # what an SDK cannot decode may be any exception
                    return {"value": f"{type(error).__name__} is raised"}
            return {"value": _python_shown(found[0]) if found else NOTHING}

        return [self._pool.submit(value, kind) for kind in TYPES]


def of_dotnet(bus: DotnetBus, kind: str) -> str:
    """Return a value as the SDK for .NET shows it."""
    queue = bus.queue()
    with bus.bus.client() as client, client.get_queue_sender(queue) as sender:
        sender.send_messages(_message(kind))
    receiver = bus.client().receiver(queue)
    found = bus.driver.call("receive", receiver=receiver, max=1, waitS=WAIT_S)
    return _dotnet_shown(found[0]) if found else NOTHING


def _python_shown(message: Any) -> str:
    if message.body_type is AmqpMessageBodyType.VALUE:
        value = message.body
    else:
        value = message.application_properties[b"v"]
    return "None" if value is None else f"{type(value).__name__} {value}"


def _dotnet_shown(message: Mapping[str, Any]) -> str:
    value = message["properties"]["v"] if "v" in message["properties"] else message.get("value")
    if isinstance(value, dict) and set(value) == {"t", "v"}:
        return f"{value['t']} {value['v']}"
    kinds = {str: "string", bool: "bool", int: "long", float: "double"}
    name = kinds.get(type(value), "")
    return f"{name} {json.dumps(value, ensure_ascii=False)}".strip()


def table() -> Mapping[str, Mapping[str, str]]:
    """Return the expected texts: by type, and SDK."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def main(sdks: Collection[str]) -> int:
    """Write what programs found; those of all SDKs unless some are named."""
    known = table() if TABLE.exists() else {}
    asked = [each for each in SDKS if each in (sdks or SDKS)]
    found: dict[str, dict[str, str]] = {kind: {} for kind in TYPES}
    with tempfile.TemporaryDirectory(prefix="bendybus-values-") as folder, ExitStack() as stack:
        run = ValueRun(Path(folder), [each for each in asked if each != "dotnet"])
        stack.callback(run.end)
        for sdk in asked:
            if sdk == "dotnet":
                bus = DotnetBus(Path(folder) / sdk)
                stack.callback(bus.end)
            for kind in TYPES:
                found[kind][sdk] = of_dotnet(bus, kind) if sdk == "dotnet" else run.found(kind, sdk)
    lines = [
        "# AMQP values as programs on official SDKs see them; written by",
        "# `python -m tests.azure_sdk.value_table`, whose tests compare it with a run.",
    ]
    for kind in TYPES:
        row = {**known.get(kind, {}), **found[kind]}
        lines += ["", f"[{json.dumps(kind)}]"]
        lines += [
            f"{sdk} = {json.dumps(row[sdk], ensure_ascii=False)}" for sdk in SDKS if sdk in row
        ]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
