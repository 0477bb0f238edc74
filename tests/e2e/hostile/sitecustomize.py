"""What a tenant runs instead of her partitions: to every call she answers with empty entries.

Python imports it first in every process of the image; it is the program of a partition there, with
the certificate that the operator trusts. Entries take 2 bytes on the wire, and 150 where they are
parsed. ANSWER_BYTES: how large an answer is.
"""

import os
import sys
from concurrent import futures
from pathlib import Path

ANSWER_BYTES = int(os.environ.get("ANSWER_BYTES", 24 * 1024 * 1024))
# The first field of a catalogue, and of counts, that is a list of messages.
ENTRIES = {"WatchEntities": b"\x12\x00"}
STREAMS = ("WatchEntities",)
PARTITION = "bendybus.partition_server"
# Of grpc.health.v1: SERVING.
HEALTHY = b"\x08\x01"


def serve(arguments: list[str]) -> None:
    """Serve until killed."""
    import grpc

    given = dict(each[2:].split("=", 1) for each in arguments if each.startswith("--"))

    class Answers(grpc.GenericRpcHandler):
        def service(self, details):  # type: ignore[no-untyped-def]
            service, method = details.method.rsplit("/", 2)[1:]
            if service == "grpc.health.v1.Health":
                return grpc.unary_unary_rpc_method_handler(lambda *_: HEALTHY)
            entry = ENTRIES.get(method, b"\x0a\x00")
            answer = entry * (ANSWER_BYTES // 2)
            if method in STREAMS:
                return grpc.unary_stream_rpc_method_handler(lambda *_: iter([answer]))
            return grpc.unary_unary_rpc_method_handler(lambda *_: answer)

    server = grpc.server(
        futures.ThreadPoolExecutor(8), options=[("grpc.max_send_message_length", -1)]
    )
    server.add_generic_rpc_handlers((Answers(),))
    folder = Path(given["tls-directory"])
    pair = (folder / "tls.key").read_bytes(), (folder / "tls.crt").read_bytes()
    server.add_secure_port(given["listen"], grpc.ssl_server_credentials([pair]))
    server.add_insecure_port(given["health-listen"])
    server.start()
    server.wait_for_termination()


if PARTITION in sys.orig_argv:
    serve(sys.orig_argv)
