"""Sessions through everything: client, front end, partitions, files."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from zlib import crc32

import pytest

from bendybus.client import (
    NEXT_AVAILABLE_SESSION,
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
)
from bendybus.client.exceptions import (
    AutoLockRenewTimeout,
    InvalidOperationError,
    OperationTimeoutError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

# 128 characters of any kind; the longest name that there is.
LONG = ("é😀 \n/'\"%$#" * 20)[:128]


@pytest.fixture
def sessions(new_queue: Callable[..., str]) -> str:
    """A session-aware queue, over all partitions."""
    return new_queue(requires_session=True, lock_duration="PT30S")


def send(client: ServiceBusClient, queue: str, session_id: str, *bodies: str) -> None:
    """Send messages of a session, in order."""
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(each, session_id=session_id) for each in bodies])


def bodies(messages: Any) -> list[str]:
    """Return the bodies of messages."""
    return [str(each) for each in messages]


def accept(client: ServiceBusClient, queue: str, which: Any, **options: Any) -> ServiceBusReceiver:
    """Return a receiver whose session is locked."""
    options = {"max_wait_time": 5, **options}
    return client.get_queue_receiver(queue, session_id=which, **options).__enter__()


@pytest.mark.requirement("R101")
def test_a_session_is_accepted_by_its_name_and_received_in_order(
    client: ServiceBusClient, sessions: str
) -> None:
    for session_id in ("a", LONG, ""):
        for number in range(3):
            send(client, sessions, session_id, f"{number}")

    for session_id in ("a", LONG, ""):
        with accept(client, sessions, session_id, max_wait_time=2) as receiver:
            assert receiver.session is not None
            assert receiver.session.session_id == session_id
            assert receiver.session.locked_until_utc is not None
            got = []
            for message in receiver:
                got.append(str(message))
                assert message.session_id == session_id
                receiver.complete_message(message)
                if len(got) == 3:
                    break
            assert got == ["0", "1", "2"]


@pytest.mark.requirement("R101", "R105")
def test_a_session_has_one_receiver_and_close_frees_it(
    client: ServiceBusClient, bus: Any, sessions: str
) -> None:
    first = accept(client, sessions, "empty")

    with bus.client(retry_total=0) as impatient:
        with pytest.raises(SessionCannotBeLockedError, match="'empty'"):
            accept(impatient, sessions, "empty")
        first.close()
        with accept(impatient, sessions, "empty", max_wait_time=1) as second:
            assert second.receive_messages() == []


@pytest.mark.requirement("R102")
def test_the_next_session_comes_from_any_partition_and_is_waited_for(
    client: ServiceBusClient, sessions: str
) -> None:
    began = time.monotonic()
    with pytest.raises(OperationTimeoutError, match="no session became free"):
        accept(client, sessions, NEXT_AVAILABLE_SESSION, max_wait_time=1)
    assert time.monotonic() - began >= 1

    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(accept, client, sessions, NEXT_AVAILABLE_SESSION, max_wait_time=30)
            for _ in range(8)
        ]
        time.sleep(0.3)
        names = [f"s{number}" for number in range(8)]
        for name in names:
            send(client, sessions, name, name)
        receivers = [each.result() for each in waiting]
        got = {}
        for receiver in receivers:
            [message] = receiver.receive_messages(max_wait_time=10)
            assert receiver.session is not None
            got[receiver.session.session_id] = str(message)
            receiver.complete_message(message)
            receiver.close()
    assert got == {name: name for name in names}
    with pytest.raises(OperationTimeoutError):
        accept(client, sessions, NEXT_AVAILABLE_SESSION, max_wait_time=0.5)


@pytest.mark.requirement("R103")
@pytest.mark.parametrize("prefetch", [0, 100])
def test_an_abandoned_message_comes_again_before_the_later_ones(
    client: ServiceBusClient, sessions: str, prefetch: int
) -> None:
    expected = [f"{number}" for number in range(40)]
    send(client, sessions, "s", *expected)

    got: list[str] = []
    with accept(client, sessions, "s", prefetch_count=prefetch) as receiver:
        abandoned: set[str] = set()
        while len(got) < len(expected):
            [message] = receiver.receive_messages(1, max_wait_time=10)
            if len(got) % 3 == 1 and str(message) not in abandoned:
                abandoned.add(str(message))
                receiver.abandon_message(message)
                continue
            got.append(str(message))
            receiver.complete_message(message)
    assert got == expected


@pytest.mark.requirement("R103")
def test_messages_that_come_back_together_come_in_order(
    client: ServiceBusClient, sessions: str
) -> None:
    expected = [f"{number}" for number in range(20)]
    send(client, sessions, "s", *expected)

    with accept(client, sessions, "s") as receiver:
        first = receiver.receive_messages(5)
        for message in first:
            receiver.abandon_message(message)
        again = receiver.receive_messages(3)
        receiver.release_messages(again)
        rest: list[Any] = []
        while len(rest) < len(expected):
            rest += receiver.receive_messages(20, max_wait_time=10)
    assert bodies(first) == expected[:5]
    assert bodies(again) == expected[:3]
    assert bodies(rest) == expected
    assert {each.delivery_count for each in rest[:5]} == {1}


@pytest.mark.requirement("R106")
def test_a_state_is_kept_for_a_session(client: ServiceBusClient, sessions: str) -> None:
    with accept(client, sessions, "s") as receiver:
        session = receiver.session
        assert session is not None
        assert session.get_state() is None
        session.set_state("grüße")
        assert session.get_state() == "grüße".encode()
        before = session.locked_until_utc
        time.sleep(0.05)
        assert session.renew_lock() > before  # type: ignore[operator]

    with accept(client, sessions, "s") as receiver:
        session = receiver.session
        assert session is not None
        assert session.get_state() == "grüße".encode()
        session.set_state(b"")
        assert session.get_state() == b""
        session.set_state(None)
        assert session.get_state() is None
        with pytest.raises(ValueError, match="larger than the"):
            session.set_state(bytes(2**20 + 1))


@pytest.mark.requirement("R108")
def test_receivers_with_and_without_a_session_are_not_mixed(
    client: ServiceBusClient, new_queue: Callable[..., str], sessions: str
) -> None:
    plain = new_queue()
    send(client, sessions, "s", "x")

    with (
        pytest.raises(InvalidOperationError, match="requires sessions to create a non-sessionful"),
        client.get_queue_receiver(sessions) as receiver,
    ):
        receiver.receive_messages()
    with pytest.raises(InvalidOperationError, match="entity that does not require sessions"):
        accept(client, plain, "s")
    with pytest.raises(InvalidOperationError, match="entity that does not require sessions"):
        accept(client, plain, NEXT_AVAILABLE_SESSION)
    with pytest.raises(ValueError, match="cannot be specified simultaneously"):
        client.get_queue_receiver(sessions, session_id="s", sub_queue="deadletter")

    with accept(client, sessions, "s") as receiver:
        [message] = receiver.receive_messages()
        receiver.dead_letter_message(message)
        with pytest.raises(TypeError, match="renew the session lock instead"):
            receiver.renew_message_lock(message)
    with client.get_queue_receiver(sessions, sub_queue="deadletter") as receiver:
        assert bodies(receiver.receive_messages(max_wait_time=10)) == ["x"]


@pytest.mark.requirement("R108")
def test_a_message_without_a_session_is_refused(client: ServiceBusClient, sessions: str) -> None:
    with client.get_queue_sender(sessions) as sender:
        with pytest.raises(InvalidOperationError, match="The SessionId was not set on a message"):
            sender.send_messages(ServiceBusMessage("x"))
        with pytest.raises(InvalidOperationError, match="The SessionId was not set on a message"):
            sender.send_messages([ServiceBusMessage("x"), ServiceBusMessage("y")])


@pytest.mark.requirement("R101")
def test_deferred_and_peeked_messages_are_those_of_the_session(
    client: ServiceBusClient, sessions: str
) -> None:
    # In the same partition, and before those of the session.
    names = (f"b{number}" for number in range(1_000))
    near = next(n for n in names if crc32(n.encode()) % 4 == crc32(b"a") % 4)
    send(client, sessions, near, "b0")
    send(client, sessions, "a", "a0", "a1")

    with accept(client, sessions, "a") as receiver:
        [message] = receiver.receive_messages(1)
        receiver.defer_message(message)
        assert bodies(receiver.peek_messages(10)) == ["a0", "a1"]
        number = message.sequence_number
        assert number is not None
        [deferred] = receiver.receive_deferred_messages(number)
        receiver.complete_message(deferred)
        [message] = receiver.receive_messages(1)
        assert str(message) == "a1"
    with client.get_queue_receiver(sessions) as plain:
        shown = bodies(plain.peek_messages(10)) + bodies(plain.peek_messages(10))
        assert sorted(shown) == ["a1", "b0"]


@pytest.mark.requirement("R109")
def test_the_lock_of_a_session_is_renewed_in_the_background(
    client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(requires_session=True, lock_duration="PT5S")
    send(client, queue, "s", "x")
    with (
        AutoLockRenewer() as renewer,
        accept(client, queue, "s", auto_lock_renewer=renewer) as receiver,
    ):
        [message] = receiver.receive_messages()
        session = receiver.session
        assert session is not None
        first = session.locked_until_utc
        time.sleep(6)
        assert session.locked_until_utc > first  # type: ignore[operator]
        assert session.auto_renew_error is None
        with pytest.raises(ValueError, match="no lock of its own"):
            renewer.register(receiver, message)
        receiver.complete_message(message)


@pytest.mark.requirement("R109", "R105")
def test_a_session_whose_lock_ended_is_lost_to_its_receiver(
    client: ServiceBusClient, new_queue: Callable[..., str]
) -> None:
    queue = new_queue(requires_session=True, lock_duration="PT5S")
    send(client, queue, "s", "x", "y")
    failures: list[Any] = []
    with (
        AutoLockRenewer(max_lock_renewal_duration=1) as renewer,
        accept(client, queue, "s") as receiver,
    ):
        session = receiver.session
        assert session is not None
        renewer.register(receiver, session, on_lock_renew_failure=lambda *a: failures.append(a))
        [message] = receiver.receive_messages(1)
        time.sleep(5.5)
        with pytest.raises(SessionLockLostError):
            receiver.complete_message(message)
        with pytest.raises(SessionLockLostError):
            receiver.receive_messages()
        with pytest.raises(SessionLockLostError):
            session.set_state("x")
        assert isinstance(session.auto_renew_error, AutoLockRenewTimeout)
    with accept(client, queue, "s") as receiver:
        messages = receiver.receive_messages(2)
        assert [(str(each), each.delivery_count) for each in messages] == [("x", 1), ("y", 0)]


@pytest.mark.requirement("R320")
@pytest.mark.parametrize("renewed", [False, True])
def test_a_session_is_received_from_until_shortly_before_its_lock_ends(
    client: ServiceBusClient, new_queue: Callable[..., str], renewed: bool
) -> None:
    queue = new_queue(requires_session=True, lock_duration="PT8S")
    send(client, queue, "s", "0", "1", "2")
    with accept(client, queue, "s") as receiver:
        since = time.monotonic()
        session = receiver.session
        assert session is not None
        got: list[str] = []
        # In the first half of the lock, past that, and near its end; a busy machine is late.
        for at_s in (1.0, 4.5, 5.7):
            time.sleep(max(0.0, since + at_s - time.monotonic()))
            if renewed and at_s == 1.0:
                session.renew_lock()
                since = time.monotonic()
            asked = time.monotonic()
            got += bodies(receiver.receive_messages(1, max_wait_time=2))
            assert time.monotonic() - asked < 2.5
        assert got == ["0", "1", "2"]


@pytest.mark.requirement("R102")
def test_a_receiver_that_stops_to_wait_holds_no_session(
    client: ServiceBusClient, sessions: str
) -> None:
    waiting = client.get_queue_receiver(
        sessions, session_id=NEXT_AVAILABLE_SESSION, max_wait_time=60
    )
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.receive_messages()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    waiting.close()
    thread.join(10)
    assert failed

    send(client, sessions, "s", "x")
    with accept(client, sessions, NEXT_AVAILABLE_SESSION, max_wait_time=10) as receiver:
        assert bodies(receiver.receive_messages()) == ["x"]
