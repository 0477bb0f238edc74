"""Channels from one server of the bus to another: how they connect, and connect again."""

from typing import Final

import grpc

from bendybus.wire import serving

RECONNECT_MS_MAX: Final = 2_000
OPTIONS: Final[list[tuple[str, int]]] = [
    *serving.OPTIONS,
    # A pool of its own: streams that must not block each other do not share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    # A pod comes back under another address.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX),
]


def opened(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    """Return a channel; in plain text without credentials."""
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=OPTIONS)
    return grpc.aio.secure_channel(address, credentials, options=OPTIONS)
