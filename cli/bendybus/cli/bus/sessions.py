"""Sessions of a bus, through the public client: listed, and what is kept for them."""

from collections.abc import Iterator

from bendybus.client import ServiceBusClient, ServiceBusReceiver

# How long a session is waited for that a command names.
_WAIT_S = 5.0


def listed(bus: ServiceBusClient, queue: str) -> Iterator[str]:
    """Yield the sessions that have active messages or a state, by partition and name."""
    yield from bus.list_queue_sessions(queue)


def state(bus: ServiceBusClient, queue: str, session_id: str) -> bytes | None:
    """Return what is kept for a session, which must be free; None: nothing."""
    with _locked(bus, queue, session_id) as receiver:
        assert receiver.session is not None
        return receiver.session.get_state()


def set_state(bus: ServiceBusClient, queue: str, session_id: str, wanted: bytes | None) -> None:
    """Keep something for a session, which must be free; None: nothing any more."""
    with _locked(bus, queue, session_id) as receiver:
        assert receiver.session is not None
        receiver.session.set_state(wanted)


def _locked(bus: ServiceBusClient, queue: str, session_id: str) -> ServiceBusReceiver:
    return bus.get_queue_receiver(queue, session_id=session_id, max_wait_time=_WAIT_S)
