"""Sessions of azure-servicebus: who holds one, who may ask about it, and when it is free again."""

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus import ServiceBusClient as SdkClient
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from bendybus.amqp.performatives import Detach
from bendybus.amqp.values import Symbol
from tests.integration.amqp import AmqpBus, take
from tests.integration.raw_amqp import RECEIVER, RawAmqp, ended

# azure-servicebus leaves sockets of links that were refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SESSION_FILTER = Symbol("com.microsoft:session-filter")


@pytest.fixture(scope="module")
def amqp_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBus]:
    made = AmqpBus(tmp_path_factory.mktemp("amqp"), partitions=4)
    yield made
    made.end()


@pytest.fixture(scope="module")
def sdk(amqp_bus: AmqpBus) -> Iterator[SdkClient]:
    with amqp_bus.sdk(retry_total=0) as made:
        yield made


@pytest.fixture
def queue(amqp_bus: AmqpBus) -> str:
    """A queue with sessions."""
    name = f"queue-{uuid.uuid4().hex[:12]}"
    with amqp_bus.administration() as administration:
        administration.create_queue(name, requires_session=True)
    return name


def send(sdk: SdkClient, queue: str, session_id: str, count: int) -> None:
    with sdk.get_queue_sender(queue) as sender:
        sender.send_messages(
            [ServiceBusMessage(f"{session_id}{n}", session_id=session_id) for n in range(count)]
        )


def test_messages_of_a_session_come_in_their_order(sdk: SdkClient, queue: str) -> None:
    send(sdk, queue, "a", 5)
    send(sdk, queue, "b", 5)

    with sdk.get_queue_receiver(queue, session_id="a") as receiver:
        found = take(receiver, 5)
        for message in found:
            receiver.complete_message(message)

    assert [str(each) for each in found] == [f"a{n}" for n in range(5)]
    assert {each.session_id for each in found} == {"a"}


def test_the_next_available_session_is_one_with_messages(sdk: SdkClient, queue: str) -> None:
    send(sdk, queue, "a", 1)

    with sdk.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION) as receiver:
        assert receiver.session.session_id == "a"
        [message] = take(receiver, 1)
        receiver.complete_message(message)
    with (
        pytest.raises(OperationTimeoutError),
        sdk.get_queue_receiver(queue, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=1),
    ):
        pytest.fail("there is no session")


@pytest.mark.requirement("R490")
def test_a_session_has_one_receiver_until_that_is_closed(sdk: SdkClient, queue: str) -> None:
    with (
        sdk.get_queue_receiver(queue, session_id="a"),
        pytest.raises(SessionCannotBeLockedError),
        sdk.get_queue_receiver(queue, session_id="a"),
    ):
        pytest.fail("it is locked")

    with sdk.get_queue_receiver(queue, session_id="a") as again:
        assert again.session.session_id == "a"


def test_state_is_kept_and_the_lock_renewed(sdk: SdkClient, queue: str) -> None:
    with sdk.get_queue_receiver(queue, session_id="a") as receiver:
        before = receiver.session.locked_until_utc
        assert before is not None
        receiver.session.set_state(b"kept")

        assert receiver.session.get_state() == b"kept"
        assert receiver.session.renew_lock() > before
    with sdk.get_queue_receiver(queue, session_id="a") as receiver:
        assert receiver.session.get_state() == b"kept"
        receiver.session.set_state(None)
        assert receiver.session.get_state() is None


def test_an_empty_state_is_none(sdk: SdkClient, queue: str) -> None:
    # As the SDK for Go clears it, which has no other way.
    with sdk.get_queue_receiver(queue, session_id="a") as receiver:
        receiver.session.set_state(b"kept")
        receiver.session.set_state(b"")

        assert receiver.session.get_state() is None


def test_a_receiver_may_wait_as_long_as_the_lock_lasts(amqp_bus: AmqpBus, sdk: SdkClient) -> None:
    with amqp_bus.administration() as administration:
        administration.create_queue("short", requires_session=True, lock_duration="PT5S")
    send(sdk, "short", "a", 3)

    with sdk.get_queue_receiver(
        "short",
        session_id="a",
        receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
        max_wait_time=5,
    ) as receiver:
        found = [str(each) for each in receiver]
        assert found == ["a0", "a1", "a2"]

        time.sleep(2)
        with pytest.raises(SessionLockLostError):
            receiver.receive_messages(max_wait_time=5)


@pytest.mark.requirement("R545")
def test_the_end_of_a_session_is_told_to_a_receiver_that_does_not_receive(
    amqp_bus: AmqpBus,
) -> None:
    with amqp_bus.administration() as administration:
        administration.create_queue("idle", requires_session=True, lock_duration="PT5S")
    with RawAmqp(amqp_bus.amqp_address).open() as peer:
        began = time.monotonic()
        wanted = {SESSION_FILTER: "a"}
        assert peer.attach("idle", RECEIVER, filter=wanted) is None
        time.sleep(3)
        assert peer.manage("idle", "renew-session-lock", {"session-id": "a"})[0] == 200

        detach = peer.wait(Detach, within_s=20)

        assert ended(detach) == "com.microsoft:session-lock-lost"
        assert 7.5 < time.monotonic() - began < 12
        peer.send(Detach(0, True))
        # It is free for the next one.
        assert peer.attach("idle", RECEIVER, filter=wanted) is None


@pytest.mark.requirement("R490")
def test_another_connection_may_not_ask_about_a_session(
    amqp_bus: AmqpBus, sdk: SdkClient, queue: str
) -> None:
    with (
        amqp_bus.sdk(retry_total=0) as other,
        sdk.get_queue_receiver(queue, session_id="a") as ours,
    ):
        ours.session.set_state(b"secret")
        with other.get_queue_receiver(queue, session_id="b") as theirs:
            # As a client would that only knows the name.
            session: Any = theirs.session
            session._session_id = "a"
            with pytest.raises(SessionLockLostError):
                session.get_state()
            with pytest.raises(SessionLockLostError):
                session.set_state(b"changed")

        assert ours.session.get_state() == b"secret"


def test_sessions_are_listed_page_by_page(sdk: SdkClient, queue: str) -> None:
    names = {f"session {number:03d}" for number in range(120)}
    with sdk.get_queue_sender(queue) as sender:
        for name in sorted(names):
            sender.send_messages(ServiceBusMessage("x", session_id=name))

    found = list(sdk.list_queue_sessions(queue))

    assert sorted(found) == sorted(names)


def test_what_needs_a_session_is_refused_without_one(sdk: SdkClient, queue: str) -> None:
    with sdk.get_queue_sender(queue) as sender, pytest.raises(ServiceBusError, match="SessionId"):
        sender.send_messages(ServiceBusMessage("x"))
    with (
        pytest.raises(ServiceBusError, match="session"),
        sdk.get_queue_receiver(queue) as receiver,
    ):
        receiver.receive_messages(max_wait_time=1)
