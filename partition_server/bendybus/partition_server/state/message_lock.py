"""The lock of a message, and what a receiver asks for to get more of them."""

from dataclasses import dataclass

from bendybus.partition_server.state.entity_ref import Caller


@dataclass(slots=True)
class Lock:
    """A locked message. Locks are not durable: a restart frees them."""

    generation: int
    # When it is over. Of a message of a session: not kept; the session's lock says it.
    until_mono_ms: int
    # The front end's stream that it is reserved for; a lock of a deferred message has none.
    stream: Caller
    # Deleted when it is handed to the client (receive-and-delete).
    delete: bool
    # The client has it: from now on a lost lock counts as a delivery.
    delivered: bool
    deferred: bool
    delivery_count: int
    size_bytes: int
    expires_ms: int | None
    # Of the properties that receivers changed, which stay in the store.
    changed_bytes: int


@dataclass(slots=True)
class HeldLock(Lock):
    """The lock of a message that was abandoned with a delay: no receiver has its token."""


@dataclass(slots=True)
class OpenAsk:
    """What a receiver still wants."""

    stream: Caller
    ask_id: int
    delete: bool
    messages: int
    size_bytes: int
