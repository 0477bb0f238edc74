"""The frame of the bare pipeline, described here instead of in a file that needs a compiler.

1 partition  number + 1, so that it is always there: the second byte of a frame
2 messages   opaque
3 numbers    of messages: delivered, or to delete
4 credit     a client asks for so many; a partition has done so many
"""

from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

METHOD: Final = "/bare/stream"


def _make() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="bench/bare/frame.proto", package="bare", syntax="proto3"
    )
    message = file.message_type.add(name="Frame")
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    fields = (
        ("partition", FieldDescriptorProto.TYPE_UINT32, one),
        ("messages", FieldDescriptorProto.TYPE_BYTES, many),
        ("numbers", FieldDescriptorProto.TYPE_UINT64, many),
        ("credit", FieldDescriptorProto.TYPE_UINT32, one),
    )
    for number, (name, kind, label) in enumerate(fields, 1):
        message.field.add(name=name, number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bare.Frame"))


Frame: Final = _make()


def partition_of(raw: bytes) -> int:
    """Return the partition of a frame without reading the rest."""
    return raw[1] - 1


class Handler(grpc.GenericRpcHandler):
    """Serves one method that streams raw frames both ways."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the same handler for any method."""
        return grpc.stream_stream_rpc_method_handler(self._stream)
