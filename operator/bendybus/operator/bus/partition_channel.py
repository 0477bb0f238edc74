"""The gRPC channel to a partition: requests are messages, answers are bytes.

What a partition answers is a tenant's to choose, so gRPC takes only small answers; a larger one is
asked for again over a channel of its own, one at a time of a bus.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import Message

from bendybus.operator.bus import answers
from bendybus.operator.bus.answers import InvalidAnswer
from bendybus.operator.certificates.cert_manager_issuer import CertManagerIssuer
from bendybus.operator.certificates.operator_issuer import OperatorIssuer
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls

COMMIT: Final = "/bendybus.internal.v1.EntityService/CommitEntity"
APPLY: Final = "/bendybus.internal.v1.EntityService/ApplyEntity"
COUNTS: Final = "/bendybus.internal.v1.PartitionService/GetCounts"
WATCH: Final = "/bendybus.internal.v1.EntityService/WatchEntities"
# How a worker says that a partition's answer cannot be understood.
NOT_UNDERSTOOD: Final = grpc.StatusCode.DATA_LOSS
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
    # http_proxy in the environment is for the web, not for partitions.
    ("grpc.enable_http_proxy", 0),
]
Metadata = tuple[tuple[str, str], ...]


def _serialised(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()


class AnswerTooLarge(InvalidAnswer):
    """Raised for an answer that is larger than the channel takes."""


class Way(Protocol):
    """How a call gets to a partition."""

    async def open(self, *, large: bool) -> tuple[grpc.aio.Channel, Metadata | None]:
        """Return a channel, and what is said with a call. Raises PartitionUnavailable."""

    async def close(self) -> None:
        """Close what was opened."""


class Direct:
    """A channel to the partition itself."""

    def __init__(self, address: str, material: tls.Material | None) -> None:
        self._address, self._material = address, material
        self._channels: dict[bool, grpc.aio.Channel] = {}

    async def open(self, *, large: bool) -> tuple[grpc.aio.Channel, Metadata | None]:
        """Return the channel for small or for large answers."""
        if large not in self._channels:
            most = answers.LARGE_ANSWER_BYTES_MAX if large else answers.ANSWER_BYTES_MAX
            self._channels[large] = self._made(most)
        return self._channels[large], None

    def _made(self, answer_bytes_max: int) -> grpc.aio.Channel:
        options = [*_OPTIONS, ("grpc.max_receive_message_length", answer_bytes_max)]
        if self._material is None:
            return grpc.aio.insecure_channel(self._address, options=options)
        credentials = tls.channel_credentials(self._material)
        return grpc.aio.secure_channel(self._address, credentials, options=options)

    async def close(self) -> None:
        """Close the channels; calls that wait are cancelled."""
        while self._channels:
            await self._channels.popitem()[1].close()


class PartitionChannel:
    """Calls to one partition."""

    def __init__(self, way: Way, *, large: asyncio.Lock) -> None:
        """`large`: held while a large answer is read."""
        self._way, self._large = way, large
        self._calls: set[Any] = set()

    async def ask(
        self, method: str, request: Message | bytes, timeout_s: float | None, *, large: bool = False
    ) -> bytes:
        """Return the answer to a call. Raises AnswerTooLarge and grpc.RpcError."""
        channel, metadata = await self._way.open(large=large)
        call: Any = channel.unary_unary(method, request_serializer=_serialised)
        running = call(request, timeout=timeout_s, metadata=metadata)
        with self._cancelled_at_close(running), _sizes_checked(large=large):
            answer: bytes = await running
            return answer

    async def watch(
        self, request: Message | bytes, timeout_s: float | None = None, *, large: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the answers of a watch; close it. Raises AnswerTooLarge and grpc.RpcError."""
        channel, metadata = await self._way.open(large=large)
        method: Any = channel.unary_stream(WATCH, request_serializer=_serialised)
        stream = method(request, timeout=timeout_s, metadata=metadata)
        with self._cancelled_at_close(stream), _sizes_checked(large=large):
            # Not `async for`: gRPC's generator would hold the last answer until it is collected.
            while (data := await stream.read()) is not grpc.aio.EOF:
                yield data

    @contextlib.contextmanager
    def _cancelled_at_close(self, call: Any) -> Iterator[None]:
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)
            call.cancel()

    @contextlib.asynccontextmanager
    async def for_large(self) -> AsyncIterator[None]:
        """Wait until no other caller of the bus reads a large answer."""
        async with self._large:
            yield

    async def close(self) -> None:
        """Close the connection; calls that wait are cancelled."""
        for call in [*self._calls]:
            call.cancel()
        await self._way.close()


@contextlib.contextmanager
def _sizes_checked(*, large: bool) -> Iterator[None]:
    """Raise AnswerTooLarge, or InvalidAnswer, for what gRPC or a worker says of an answer."""
    try:
        yield
    except grpc.RpcError as error:
        details = error.details() or ""
        if error.code() is NOT_UNDERSTOOD:
            raise InvalidAnswer(answers.sentence(details)) from error
        too_large = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        if too_large and "message larger than max" in details.lower():
            most = answers.LARGE_ANSWER_BYTES_MAX if large else answers.ANSWER_BYTES_MAX
            raise AnswerTooLarge(f"its answer is larger than {most} bytes") from error
        raise


class PartitionEndpoints(Protocol):
    """Addresses and certificates."""

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition."""

    async def material(self, bus: ObjectKey) -> tls.Material | None:
        """Return the operator's certificate and the roots of a bus; None is plain text.

        Raises ApiError.
        """


class PodEndpoints:
    """Partitions are pods behind a headless Service, and speak TLS."""

    def __init__(
        self, settings: Settings, authority: OperatorIssuer, issued: CertManagerIssuer
    ) -> None:
        self._settings = settings
        self._authority = authority
        self._issued = issued

    def address(self, bus: ObjectKey, partition: int) -> str:
        """Return HOST:PORT of a partition's pod."""
        return names.partition_address(bus, partition)

    async def material(self, bus: ObjectKey) -> tls.Material:
        """Return cert-manager's certificate, or one by the own authority. Raises ApiError."""
        if self._settings.cert_manager:
            return await self._issued.operator_material(bus)
        return await self._authority.operator_material(bus)
