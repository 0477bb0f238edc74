"""Messages through the client: batching, settling, resubmitting, with a client in memory."""

from types import SimpleNamespace
from typing import Any, Self

import pytest

from bendybus.cli.lines import Outgoing

pytest.importorskip("bendybus.client.exceptions", reason="the client is not there yet")
messages = pytest.importorskip("bendybus.cli.messages", exc_type=ImportError)


class FakeClient:
    """Sender, receiver and client in one; keeps what was done."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)
        self.sent: list[list[Any]] = []
        self.done: list[tuple[str, int]] = []
        self.options: dict[str, Any] = {}

    def get_queue_sender(self, queue: str) -> Self:
        return self

    def get_queue_receiver(self, queue: str, **options: Any) -> Self:
        self.options = options
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def send_messages(self, batch: Any, **_: Any) -> None:
        self.sent.append(batch if isinstance(batch, list) else [batch])

    def receive_messages(self, *, max_message_count: int, max_wait_time: float) -> list[Any]:
        taken, self.held = self.held[:max_message_count], self.held[max_message_count:]
        return taken

    def complete_messages(self, batch: list[Any]) -> None:
        self.done += [("complete", each.sequence_number) for each in batch]

    def complete_message(self, message: Any) -> None:
        self.done.append(("complete", message.sequence_number))

    def abandon_message(self, message: Any) -> None:
        self.done.append(("abandon", message.sequence_number))


def received(number: int, **properties: Any) -> Any:
    names = ("message_id", "session_id", "partition_key", "subject", "content_type",
             "correlation_id", "to", "reply_to", "reply_to_session_id",
             "application_properties", "delivery_count", "enqueued_time_utc",
             "dead_letter_reason", "dead_letter_error_description")  # fmt: skip
    facts = dict.fromkeys(names) | {"sequence_number": number, "body": iter([b"text"])}
    return SimpleNamespace(**(facts | properties))


def test_messages_of_one_key_share_a_batch_and_keep_their_order() -> None:
    client = FakeClient()
    outgoing = [Outgoing(str(n), {"partition_key": "ab"[n % 2]}) for n in range(4)]

    sent = messages.send(client, "q", outgoing, lambda count: None)

    assert sent == 4
    bodies = [[b"".join(each.body) for each in batch] for batch in client.sent]
    assert bodies == [[b"0", b"2"], [b"1", b"3"]]


def test_large_messages_are_sent_in_batches_that_a_bus_takes() -> None:
    client = FakeClient()

    messages.send(client, "q", [Outgoing("x" * 60_000)] * 5, lambda count: None)

    assert [len(batch) for batch in client.sent] == [2, 2, 1]


def test_received_messages_are_completed_after_they_were_shown() -> None:
    client = FakeClient(received(1), received(2))
    options = {"most": 5, "wait_s": 0.1, "delete": False, "complete": True}

    found = messages.receive(client, "q", **options)
    first = next(found)
    done_before = list(client.done)
    rest = list(found)

    assert first == {"sequence_number": 1, "partition": 0, "body": "text"}
    assert done_before == []
    assert len(rest) == 1
    assert client.done == [("complete", 1), ("complete", 2)]


def test_without_completing_messages_are_given_back_at_the_end() -> None:
    client = FakeClient(received(1), received(2))

    list(messages.receive(client, "q", most=2, wait_s=0.1, delete=False, complete=False))

    assert client.done == [("abandon", 1), ("abandon", 2)]


def test_a_dead_letter_is_completed_after_its_copy_was_sent() -> None:
    dead = received(1, message_id="m", application_properties={b"DeadLetterReason": b"x", b"a": 1})
    client = FakeClient(dead)

    count = messages.resubmit(client, "q", most=10, wait_s=0.1, step=lambda count: None)

    copy = client.sent[0][0]
    assert count == 1
    assert copy.message_id == "m"
    assert list(copy.application_properties.values()) == [1]
    assert client.done == [("complete", 1)]
