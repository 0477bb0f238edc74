"""What a tenant runs instead of her partitions; what she answers is said by the name of her bus.

Python imports it first in every process of the image; it is the program of a partition there, with
the certificate that the operator trusts.

    empty    24 MB of empty entries: 2 bytes on the wire, and 150 where they are parsed
    nested   one entry with a million of such inside: no more bytes than a good answer has
    mute     nothing: every call waits until its caller gives up
"""

import os
import signal
import sys
import time
from concurrent import futures
from pathlib import Path

ANSWER_BYTES = 24 * 1024 * 1024
RULES = 1_000_000
# Rules of a subscription, the subscription of an entity, the entities of a catalogue.
NESTED_IN = (12, 16, 4)
# The first field of a catalogue, and of counts, that is a list of messages.
ENTRIES = {"WatchEntities": b"\x12\x00"}
STREAMS = ("WatchEntities",)
PARTITION = "bendybus.partition_server"
# Of grpc.health.v1: SERVING.
HEALTHY = b"\x08\x01"


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def answer(kind: str, method: str) -> bytes:
    """Return what a call gets, if anything."""
    if kind == "mute":
        time.sleep(3600)
    if kind == "nested" and method == "WatchEntities":
        made = b"\x0a\x00" * RULES
        for field in NESTED_IN:
            made = varint(field << 3 | 2) + varint(len(made)) + made
        return made
    return ENTRIES.get(method, b"\x0a\x00") * (ANSWER_BYTES // 2)


def serve(arguments: list[str]) -> None:
    """Serve until killed."""
    import grpc

    given = dict(each[2:].split("=", 1) for each in arguments if each.startswith("--"))
    kind = given["namespace-name"]

    class Answers(grpc.GenericRpcHandler):
        def service(self, details):  # type: ignore[no-untyped-def]
            service, method = details.method.rsplit("/", 2)[1:]
            if service == "grpc.health.v1.Health":
                return grpc.unary_unary_rpc_method_handler(lambda *_: HEALTHY)
            if method in STREAMS:
                return grpc.unary_stream_rpc_method_handler(lambda *_: iter([answer(kind, method)]))
            return grpc.unary_unary_rpc_method_handler(lambda *_: answer(kind, method))

    server = grpc.server(
        futures.ThreadPoolExecutor(64), options=[("grpc.max_send_message_length", -1)]
    )
    server.add_generic_rpc_handlers((Answers(),))
    folder = Path(given["tls-directory"])
    pair = (folder / "tls.key").read_bytes(), (folder / "tls.crt").read_bytes()
    server.add_secure_port(given["listen"], grpc.ssl_server_credentials([pair]))
    server.add_insecure_port(given["health-listen"])
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    server.start()
    server.wait_for_termination()


if PARTITION in sys.orig_argv:
    serve(sys.orig_argv)
