"""Replies that a client of AMQP has not read: they are counted, bounded, and come in the end."""

import contextlib
import threading
from collections.abc import Iterator

import pytest

from bendybus.amqp import sections
from bendybus.amqp.performatives import Attach, Detach, Transfer
from bendybus.amqp.sections import Message, Properties
from bendybus.frontend.core.quota.bounds import ANSWERS, REPLY_BYTES
from tests.amqp.peers import framed
from tests.frontend.amqp_listening import Listening
from tests.integration.processes import eventually
from tests.integration.raw_amqp import RECEIVER, SENDER, RawAmqp, attach_of, ended, flow_of

CREDIT = 1_000


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as made:
        yield made
    assert made.failures == []


def held(listening: Listening) -> int:
    """Return the room that answers take."""
    found: int = listening.ask(lambda: listening.listener.front_end.quota.answers.held)
    return found


def request(number: int, operation: str = "put-token", id_bytes: int = 0) -> bytes:
    """Return a frame with a request on handle 0, whose reply names its id."""
    payload = sections.encode(
        Message(
            properties=Properties(message_id=f"{number}".ljust(id_bytes)),
            application_properties={"operation": operation, "name": "amqp://x/"},
            value={} if operation.startswith("com.") else "any",
            has_value=True,
        )
    )
    return framed(Transfer(0, number, number.to_bytes(4), 0, settled=True), payload)


def attached(raw: RawAmqp, node: str, *, window: int = 5_000) -> None:
    """Attach links for requests and replies, the latter with credit, in a session's window."""
    raw.send(attach_of(node, SENDER, 0), attach_of(node, RECEIVER, 1))
    raw.wait(Attach, lambda each: each.handle == 1)
    raw.send(flow_of(1, CREDIT, incoming_window=window))


def ids(raw: RawAmqp, count: int) -> list[str]:
    """Return the ids of the requests to which the next replies are."""
    payloads = [raw.wait_on_channel(Transfer, lambda *_: True)[2] for _ in range(count)]
    found = [sections.decode(each).properties for each in payloads]
    return ["" if each is None else str(each.correlation_id) for each in found]


def test_replies_behind_a_closed_window_take_room_and_come_when_it_opens(
    listening: Listening,
) -> None:
    count = 300
    with listening.raw().open() as raw:
        attached(raw, "$cbs", window=0)
        raw.write(b"".join(map(request, range(count))))
        eventually(lambda: held(listening) > count * REPLY_BYTES)
        assert not raw.read(0.1)

        raw.send(flow_of(1, CREDIT, incoming_window=100))
        assert ids(raw, 100) == [str(each) for each in range(100)]
        assert held(listening) > 200 * REPLY_BYTES
        raw.send(flow_of(1, CREDIT, incoming_window=5_000, next_incoming_id=100))

        assert ids(raw, 200) == [str(each) for each in range(100, count)]
        eventually(lambda: held(listening) == 0)
        raw.write(request(count))
        assert ids(raw, 1) == [str(count)]


def test_a_link_ends_when_its_replies_behind_a_closed_window_are_too_many(
    listening: Listening,
) -> None:
    answers = listening.listener.front_end.quota.answers
    with listening.raw().open() as raw:
        attached(raw, "$cbs", window=0)
        [connection] = listening.connections()
        filled = (connection.holder, ANSWERS.connection - 10 * REPLY_BYTES)
        assert listening.ask(lambda: answers.take(*filled))

        raw.write(b"".join(map(request, range(10))))

        assert ended(raw.wait(Detach)) == "amqp:resource-limit-exceeded"
        raw.send(Detach(1, True))
        eventually(lambda: held(listening) == filled[1])
        listening.ask(lambda: answers.give(*filled))


def test_a_reply_of_which_the_window_has_room_for_a_part_keeps_its_room(
    listening: Listening,
) -> None:
    asked = request(1, "com.microsoft:peek-message", id_bytes=50_000)
    with listening.raw().open(max_frame_size=20_000) as raw:
        attached(raw, "q/$management", window=1)
        for at in range(3):
            part = asked[at * 20_000 : (at + 1) * 20_000]
            raw.write(part)
        raw.wait(Transfer)
        assert held(listening) > 50_000

        raw.send(flow_of(1, CREDIT, incoming_window=100, next_incoming_id=1))

        assert not raw.wait(Transfer, lambda each: not each.more).more
        eventually(lambda: held(listening) == 0)


def test_a_reply_keeps_the_room_in_which_it_was_built_until_it_is_read(
    listening: Listening,
) -> None:
    count, id_bytes = 200, 50_000
    asked = b"".join(
        request(each, "com.microsoft:peek-message", id_bytes=id_bytes) for each in range(count)
    )
    with listening.raw(receive_bytes=4_096).open() as raw:
        attached(raw, "q/$management")
        [connection] = listening.connections()

        def write() -> None:
            with contextlib.suppress(OSError):
                raw.write(asked)

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: listening.ask(lambda: connection.reading.paused))
        assert held(listening) > id_bytes
        read = ids(raw, count)
        writer.join()

        assert [each.strip() for each in read] == [str(each) for each in range(count)]
        eventually(lambda: held(listening) == 0)


def test_unread_replies_leave_no_room_taken_with_their_connection(listening: Listening) -> None:
    asked = b"".join(
        request(each, "com.microsoft:peek-message", id_bytes=50_000) for each in range(4)
    )
    for window in (0, 1, 10):
        with listening.raw(receive_bytes=4_096).open(max_frame_size=20_000) as raw:
            attached(raw, "q/$management", window=window)
            raw.write(asked)
            eventually(lambda: held(listening) > 0)
        eventually(lambda: not listening.connections())
        eventually(lambda: held(listening) == 0)
