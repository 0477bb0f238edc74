"""The gRPC channel of a connection: opened when it is needed, with TLS as the bus has it."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from bendybus.client.core import settings
from bendybus.client.core.io_thread import IoThread
from bendybus.client.core.settings import Settings
from bendybus.domain import limits
from bendybus.domain.errors import BusError, RetryableError
from bendybus.v1 import (
    management_pb2_grpc,
    pipeline_pb2_grpc,
    receiver_pb2_grpc,
    sender_pb2_grpc,
    transaction_pb2_grpc,
)
from bendybus.wire import tls

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", limits.GRPC_FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", limits.GRPC_FRAME_BYTES_MAX),
    # A front end comes back under another address.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Connections that must not block each other do not share one.
    ("grpc.use_local_subchannel_pool", 1),
    # http_proxy in the environment is for the web: no proxy knows a bus on this machine or cluster.
    ("grpc.enable_http_proxy", 0),
)
# What gRPC reports of an address where nothing listens, and of a host name that does not exist.
_NOT_LISTENING: Final = ("Connection refused", "DNS resolution failed")


RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT")


class Stubs:
    """The stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.sender = sender_pb2_grpc.SenderServiceStub(channel)
        self.receiver = receiver_pb2_grpc.ReceiverServiceStub(channel)
        self.transaction = transaction_pb2_grpc.TransactionServiceStub(channel)
        self.pipeline = pipeline_pb2_grpc.PipelineServiceStub(channel)
        self.management = management_pb2_grpc.ManagementServiceStub(channel)


# A unary method of the bus, by the stubs of the channel that is open.
Method: TypeAlias = "Callable[[Stubs], grpc.aio.UnaryUnaryMultiCallable[RequestT, AnswerT]]"


class Channel:
    """A channel to the bus, and what is known about its TLS. On the I/O thread only."""

    def __init__(self, settings: Settings, io: IoThread) -> None:
        self._settings = settings
        self._io = io
        self._use_tls = settings.use_tls
        self._probe: asyncio.Task[bool] | None = None
        # The certificates that the open channel trusts.
        self._trusted: bytes | None = None
        self._channel: grpc.aio.Channel | None = None
        self._stubs: Stubs | None = None

    async def stubs(self) -> Stubs:
        """Return the stubs; the channel is opened when needed."""
        if self._use_tls is None:
            self._use_tls = await self._speaks_tls()
        if self._stubs is None:
            self._channel = self._open_channel()
            self._stubs = Stubs(self._channel)
        return self._stubs

    async def _speaks_tls(self) -> bool:
        """Ask the bus whether it speaks TLS: once, for all streams and calls that wait for it."""
        if self._probe is None or self._probe.done():
            self._probe = self._io.loop.create_task(
                settings.speaks_tls(self._settings.target), name="bendybus-probe"
            )
            # Retrieved, also if every caller was cancelled.
            self._probe.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller may be cancelled while others wait for the same probe.
        return await asyncio.shield(self._probe)

    async def close(self) -> None:
        """Close the channel; the next call opens another one."""
        channel, self._channel, self._stubs = self._channel, None, None
        if channel is not None:
            await channel.close()

    def explain(self, error: BusError, *, answered: bool) -> BusError:
        """Return a connection error with what to change, where TLS or the address is the reason.

        `answered`: the bus has answered on this connection before.
        """
        if tls.is_untrusted(error.message):
            self._reload_certificates()
        use_tls = self._use_tls is not False
        if type(error) is not RetryableError or (not use_tls and answered):
            # A bus that answered in plain text before does not speak TLS: it has gone.
            return error
        target = self._settings.target
        advice = tls.explain(error.message, address=target, use_tls=use_tls)
        if not advice and any(sign in error.message for sign in _NOT_LISTENING):
            advice = f"No bus answers at {target}. Check host and port; is it running?"
        return RetryableError(f"{advice} ({error.message})") if advice else error

    def _certificates(self) -> bytes | None:
        path = self._settings.ca_file
        if path is None:
            return None
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return self._trusted

    def _reload_certificates(self) -> None:
        """Open another channel when needed, if the file of certificates has changed."""
        channel = self._channel
        if channel is not None and self._certificates() != self._trusted:
            self._channel = self._stubs = None
            self._io.spawn(channel.close(), "bendybus-close")

    def _open_channel(self) -> grpc.aio.Channel:
        if not self._use_tls:
            return grpc.aio.insecure_channel(self._settings.target, options=_OPTIONS)
        self._trusted = self._certificates()
        credentials = grpc.ssl_channel_credentials(self._trusted)
        return grpc.aio.secure_channel(self._settings.target, credentials, options=_OPTIONS)
