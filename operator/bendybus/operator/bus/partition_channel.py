"""The gRPC channel to a partition: requests are messages, answers are bytes.

What a partition answers is a tenant's to choose, so gRPC takes only small answers; a larger one is
asked for again over a channel of its own, one at a time of a bus.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from bendybus.internal.v1 import entity_pb2, partition_pb2
from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer
from bendybus.wire import tls

COMMIT: Final = "/bendybus.internal.v1.EntityService/CommitEntity"
APPLY: Final = "/bendybus.internal.v1.EntityService/ApplyEntity"
COUNTS: Final = "/bendybus.internal.v1.PartitionService/GetCounts"
_WATCH: Final = "/bendybus.internal.v1.EntityService/WatchEntities"
_OPTIONS: Final = [
    # A restarted pod has another address: resolve it again soon.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Connections to an address that is gone time out: do not wait the default 20 s.
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Two operators in one process (in tests) must not share connections.
    ("grpc.use_local_subchannel_pool", 1),
]
Request = (
    entity_pb2.CommitEntityRequest | entity_pb2.ApplyEntityRequest | partition_pb2.GetCountsRequest
)


def _serialised(request: Message) -> bytes:
    return request.SerializeToString()


class AnswerTooLarge(InvalidAnswer):
    """Raised for an answer that is larger than the channel takes."""


class PartitionChannel:
    """A channel to one partition; `answer_bytes_max`: the largest answer that it takes."""

    def __init__(
        self,
        address: str,
        material: tls.Material | None,
        *,
        large: asyncio.Lock,
        answer_bytes_max: int = answers.ANSWER_BYTES_MAX,
    ) -> None:
        """`large`: held while a large answer is read."""
        self._address, self._material, self._large = address, material, large
        self._answer_bytes_max = answer_bytes_max
        options = [*_OPTIONS, ("grpc.max_receive_message_length", answer_bytes_max)]
        if material is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            credentials = tls.channel_credentials(material)
            self._channel = grpc.aio.secure_channel(address, credentials, options=options)

    async def ask(self, method: str, request: Request, timeout_s: float) -> bytes:
        """Return the answer to a call. Raises AnswerTooLarge and grpc.RpcError."""
        call: Any = self._channel.unary_unary(method, request_serializer=_serialised)
        try:
            answer: bytes = await call(request, timeout=timeout_s)
            return answer
        except grpc.RpcError as error:
            self._check_size(error)
            raise

    async def watch(
        self, request: entity_pb2.WatchEntitiesRequest, timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the answers of a watch; close it. Raises AnswerTooLarge and grpc.RpcError."""
        method: Any = self._channel.unary_stream(_WATCH, request_serializer=_serialised)
        stream = method(request, timeout=timeout_s)
        try:
            # Not `async for`: gRPC's generator would hold the last answer until it is collected.
            while (data := await stream.read()) is not grpc.aio.EOF:
                yield data
        except grpc.RpcError as error:
            self._check_size(error)
            raise
        finally:
            stream.cancel()

    def _check_size(self, error: grpc.RpcError) -> None:
        """Raise AnswerTooLarge if an answer was larger than this channel takes."""
        if (
            error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            and "message larger than max" in (error.details() or "").lower()
        ):
            raise AnswerTooLarge(
                f"its answer is larger than {self._answer_bytes_max} bytes"
            ) from error

    @contextlib.asynccontextmanager
    async def for_large(self) -> AsyncIterator["PartitionChannel"]:
        """Give a channel for large answers; others of the bus wait until it is closed."""
        async with self._large:
            channel = PartitionChannel(
                self._address,
                self._material,
                large=self._large,
                answer_bytes_max=answers.LARGE_ANSWER_BYTES_MAX,
            )
            try:
                yield channel
            finally:
                await channel.close()

    async def close(self) -> None:
        """Close the connection; calls that wait are cancelled."""
        await self._channel.close()
