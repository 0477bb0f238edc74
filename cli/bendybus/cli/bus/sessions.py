"""Sessions of a bus, through the public client: listed, and what is kept for them."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager

from bendybus.cli.bus import bus_choice, messages
from bendybus.cli.bus.bus_choice import Choice
from bendybus.client import ServiceBusClient, ServiceBusReceiver
from bendybus.client.management import ServiceBusAdministrationClient, SessionRuntimeProperties

# How long a session is waited for that a command names.
_WAIT_S = 5.0


def listed(choice: Choice, queue: str) -> Generator[SessionRuntimeProperties]:
    """Yield the sessions with messages, a state or a receiver, by partition and name."""
    with _administration(choice) as bus:
        yield from bus.list_queue_sessions_runtime_properties(queue)


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


@contextmanager
def _administration(choice: Choice) -> Iterator[ServiceBusAdministrationClient]:
    with (
        bus_choice.target(choice) as target,
        messages.translated(target),
        ServiceBusAdministrationClient.from_connection_string(
            target.connection_string,
            connection_verify=target.ca_file and str(target.ca_file),
            tracing=False,
        ) as bus,
    ):
        yield bus
