"""Messages through the client: batching, settling, resubmitting, with a client in memory."""

import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self

import pytest

from bendybus.cli.bus import messages, resubmit, send_messages
from bendybus.cli.bus.bus_choice import Target
from bendybus.cli.bus.messages import Receive
from bendybus.cli.bus.resubmit import Resubmit, Where
from bendybus.cli.errors import CliError
from bendybus.cli.output import json_lines, printing
from bendybus.cli.output.json_lines import Fields, Outgoing
from bendybus.client import ServiceBusMessage, ServiceBusReceivedMessage
from bendybus.client.amqp import AmqpAnnotatedMessage
from bendybus.client.exceptions import (
    InvalidArgumentError,
    OutcomeUnknownError,
    PartitionUnavailableError,
    from_management_error,
)
from bendybus.client.messages import encode, raw_amqp_message, received_message, values
from bendybus.client.messages.received_message import Delivered
from bendybus.domain import errors
from bendybus.v1 import message_pb2


def full(body: Any = b"b") -> ServiceBusMessage:
    """Return a message with what only AMQP's sections have."""
    message = ServiceBusMessage(body, message_id="m", session_id="s", subject="t")
    own: dict[str, Any] = {
        "priority": 0,
        "user_id": b"\xff",
        "content_encoding": "gzip",
        "group_sequence": 3,
        "creation_time": 1,
        "absolute_expiry_time": 2,
        "annotations": {"a": ("SYMBOL", "x"), "n": {"m": [1]}},
        "footer": {"crc": ("UINT", 5)},
        "amqp_escapes": b"\xc1\x01\x00",
    }
    raw_amqp_message.set_own_fields(message, own)
    assert set(raw_amqp_message.own_fields(message)) == set(own)
    return message


class FakeClient:
    """Sender, receiver and client in one; keeps what was done."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)
        self.sent: list[list[Any]] = []
        self.done: list[tuple[str, int]] = []
        self.options: dict[str, Any] = {}
        self.destination = ""
        # The number of the send that fails, if any.
        self.failing = 0
        self.failure: Exception = OutcomeUnknownError(message="gone")

    def get_queue_sender(self, queue: str) -> Self:
        self.destination = queue
        return self

    def get_queue_receiver(self, queue: str, **options: Any) -> Self:
        self.options = options
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def send_messages(self, batch: Any, **_: Any) -> None:
        if self.failing and len(self.sent) + 1 == self.failing:
            raise self.failure
        given = batch if isinstance(batch, list) else [batch]
        self.sent.append([encode.as_message(each) for each in given])

    def receive_messages(self, max_message_count: int, max_wait_time: float) -> list[Any]:
        taken, self.held = self.held[:max_message_count], self.held[max_message_count:]
        return taken

    def complete_messages(self, batch: list[Any]) -> None:
        self.done += [("complete", each.sequence_number) for each in batch]

    def complete_message(self, message: Any) -> None:
        self.done.append(("complete", message.sequence_number))

    def release_messages(self, batch: list[Any]) -> None:
        self.done += [("release", each.sequence_number) for each in batch]


def received(number: int, message: Any = "text", reason: str = "") -> ServiceBusReceivedMessage:
    """Return a message as the bus would give it."""
    given = ServiceBusMessage(message) if isinstance(message, str) else message
    columns = encode.columns_of(given)
    assert columns is not None
    batch = encode.batch_proto([columns])
    until_ms = round(datetime.now(UTC).timestamp() * 1_000) + 60_000
    proto = message_pb2.DeliveredBatch(
        messages=batch.messages,
        heads=batch.heads,
        formats=batch.formats,
        message_ids=batch.message_ids,
        partition_keys=batch.partition_keys,
        session_ids=batch.session_ids,
        time_to_live_ms=batch.time_to_live_ms,
        sequence_numbers=[number],
        dead_letter_reasons=[reason] if reason else [],
        lock_tokens=bytes(16),
        locked_until_ms=until_ms,
    )
    [made] = received_message.make_all([(Delivered(proto), 0, 1)])
    return made


def wire(message: ServiceBusReceivedMessage) -> message_pb2.Message:
    """Return what travels; maps have no order."""
    return message_pb2.Message.FromString(message._whole())


class Shown:
    """Keeps what was shown, and what was done before."""

    def __init__(self, client: FakeClient, fails: type[BaseException] | None = None) -> None:
        self.facts: list[dict[str, Any]] = []
        self.done_before: list[Any] = []
        self._client = client
        self._fails = fails

    def __call__(self, batch: Sequence[dict[str, Any]]) -> Iterator[None]:
        self.done_before += self._client.done
        for facts in batch:
            if self._fails is not None:
                raise self._fails
            self.facts.append(facts)
            yield


def test_messages_of_one_key_share_a_batch_and_keep_their_order() -> None:
    client = FakeClient()
    outgoing = [Outgoing(str(n), {"partition_key": "ab"[n % 2]}) for n in range(4)]

    sent = send_messages.send(client, "q", outgoing, lambda count: None)  # type: ignore[arg-type]

    assert sent == 4
    bodies = [[b"".join(each.body) for each in batch] for batch in client.sent]
    assert bodies == [[b"0", b"2"], [b"1", b"3"]]


def test_large_messages_are_sent_in_batches_that_a_bus_takes() -> None:
    client = FakeClient()

    send_messages.send(client, "q", [Outgoing("x" * 60_000)] * 5, lambda count: None)  # type: ignore[arg-type]

    assert [len(batch) for batch in client.sent] == [2, 2, 1]


def test_received_messages_are_completed_after_they_were_shown() -> None:
    client = FakeClient(received(1), received(2))
    shown = Shown(client)

    messages.receive(client, "q", Receive(5, 0.1), shown)  # type: ignore[arg-type]

    assert [(each["sequence_number"], each["body"]) for each in shown.facts] == [
        (1, "text"),
        (2, "text"),
    ]
    assert shown.done_before == []
    assert client.done == [("complete", 1), ("complete", 2)]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, BrokenPipeError])
def test_what_was_not_shown_is_not_completed_and_goes_back_uncounted(
    ending: type[BaseException],
) -> None:
    client = FakeClient(received(1), received(2))

    with pytest.raises(ending):
        messages.receive(client, "q", Receive(5, 0.1), Shown(client, ending))  # type: ignore[arg-type]

    assert client.done == [("release", 1), ("release", 2)]


def test_without_completing_messages_are_given_back_uncounted_at_the_end() -> None:
    client = FakeClient(received(1), received(2))

    messages.receive(client, "q", Receive(2, 0.1, complete=False), Shown(client))  # type: ignore[arg-type]

    assert client.done == [("release", 1), ("release", 2)]


def resubmitted(client: FakeClient, **options: Any) -> Any:
    """Resubmit with a client."""
    given: dict[str, Any] = {"most": 10, "wait_s": 0.1, "destination": "q", "detects": False}
    wanted = Resubmit(**(given | options))
    return resubmit.resubmit(client, "q", wanted, lambda count: None)  # type: ignore[arg-type]


def test_a_dead_letter_is_completed_after_its_copy_was_sent() -> None:
    made = ServiceBusMessage("b", message_id="m", application_properties={"a": 1}, subject="s")
    client = FakeClient(received(1, made, reason="x"))

    done = resubmitted(client)

    copy = client.sent[0][0]
    assert done.resubmitted == 1
    assert (copy.message_id, copy.subject, str(copy)) == ("m", "s", "b")
    assert list(copy.application_properties.values()) == [1]
    assert client.done == [("complete", 1)]


def test_a_copy_of_a_dead_letter_has_everything_that_the_message_had() -> None:
    letter = received(1, full(), reason="x")
    client = FakeClient(letter)

    resubmitted(client)

    assert wire(received(2, client.sent[0][0])) == wire(received(3, full()))
    assert "annotations" in raw_amqp_message.own_fields(letter)


def test_a_copy_into_a_queue_that_detects_duplicates_has_an_id_of_its_own_that_repeats() -> None:
    made = ServiceBusMessage("b", message_id="m")
    client = FakeClient(received(1, made, "x"), received(1, made, "x"), received(2, made, "x"))

    resubmitted(client, detects=True)

    first, again, other = [batch[0] for batch in client.sent]
    assert first.message_id != "m"
    assert first.message_id == again.message_id != other.message_id
    assert first.application_properties[resubmit.ORIGINAL_ID.encode()] == "m"


def test_only_dead_letters_that_are_meant_are_sent_again_and_others_go_back() -> None:
    client = FakeClient(
        received(1, ServiceBusMessage("b", subject="a"), "x"),
        received(2, ServiceBusMessage("b", subject="b"), "x"),
        received(3, ServiceBusMessage("b", subject="b"), "y"),
    )

    done = resubmitted(
        client,
        numbers=frozenset({2, 3}),
        where=(Where("subject", "b"), resubmit.parse_where("reason=x")),
    )

    assert done.resubmitted == 1
    assert client.done == [("complete", 2), ("release", 1), ("release", 3)]


def test_numbers_of_no_dead_letter_are_told() -> None:
    client = FakeClient(received(1, reason="x"), received(2, reason="y"))

    done = resubmitted(client, numbers=frozenset({2, 7, 5}), where=(Where("subject", "other"),))

    assert (done.resubmitted, done.missing) == (0, (5, 7))


def test_a_dry_run_sends_and_completes_nothing() -> None:
    client = FakeClient(received(1, reason="x"))

    done = resubmitted(client, dry_run=True)

    assert done.resubmitted == 1
    assert (client.sent, client.done) == ([], [("release", 1)])


@pytest.mark.parametrize(
    "message",
    [
        ServiceBusMessage("text", message_id="m", session_id="s", subject="t"),
        ServiceBusMessage(b"\xff\x00"),
        ServiceBusMessage(None),
        AmqpAnnotatedMessage(value_body={"a": [1, 2.5, b"", uuid.UUID(int=3)], "t": ("CHAR", "c")}),
        AmqpAnnotatedMessage(sequence_body=[[1, "x"], [None, True]]),
        full(),
        full(None),
        ServiceBusMessage(
            "b",
            application_properties={
                "text": "t", "n": 1, "f": 1.5, "u": ("UINT", 5), "b": b"\x01",
                "id": uuid.UUID(int=1),
                "at": datetime(2026, 1, 1, tzinfo=UTC), "none": None, "float": ("FLOAT", 0.5),
                "only amqp": values.Encoded(b"\x00\x53\x01\x40"),
            },
        ),
    ],
)  # fmt: skip
def test_what_receive_prints_can_be_sent_as_it_is(message: Any) -> None:
    first = received(7, message)
    printed = printing.json_text(messages.shown(first))

    again = received(8, send_messages.message_of(json_lines.parse(printed, 1, Fields())))

    assert wire(again) == wire(first)
    facts = messages.shown(again)
    assert facts | {"sequence_number": 7} == messages.shown(first)


def test_an_import_that_stops_says_what_is_stored_and_goes_on_there(tmp_path: Any) -> None:
    client = FakeClient()
    client.failing = 2
    given = [Outgoing(str(n), {"partition_key": "ab"[n % 2]}, line=n + 1) for n in range(4)]
    progress = send_messages.Progress()
    file = tmp_path / "x.jsonl"
    file.write_text("0\n1\n2\n3\n", encoding="utf-8")

    with pytest.raises(OutcomeUnknownError):
        send_messages.send(client, "q", given, lambda count: None, progress)  # type: ignore[arg-type]
    send_messages.keep_progress(file, "q", progress)
    client.failing = 0
    again = send_messages.read_progress(file, "q")
    send_messages.send(client, "q", given, lambda count: None, again)  # type: ignore[arg-type]

    assert (progress.sent, progress.uncertain, sorted(progress.also)) == (2, 2, [1, 3])
    assert [[str(each) for each in batch] for batch in client.sent] == [["0", "2"], ["1", "3"]]


@pytest.mark.requirement("R583")
@pytest.mark.parametrize(
    ("queue", "text", "sentence"),
    [
        ("q", "0\n1\nmended\n3\n4\n", ""),
        ("q", "0\r\n1", ""),
        ("other", "0\n1\n2\n", "x.jsonl.sent is of an import to 'q', not to 'other'"),
        ("q", "0\nchanged\n2\n", "lines up to 2, which x.jsonl.sent says are stored, have changed"),
        ("q", "0\n", "lines up to 2"),
    ],
)
def test_an_import_goes_on_only_if_what_is_stored_is_the_same(
    tmp_path: Any, queue: str, text: str, sentence: str
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"0\n1\n2\n")
    send_messages.keep_progress(file, "q", send_messages.Progress(through=2))
    file.write_bytes(text.encode())

    if sentence:
        with pytest.raises(CliError, match=re.escape(sentence)):
            send_messages.read_progress(file, queue)
    else:
        assert send_messages.read_progress(file, queue).through == 2


def test_what_was_refused_for_sure_is_not_told_as_uncertain() -> None:
    client = FakeClient()
    client.failing, client.failure = 1, PartitionUnavailableError(message="away")
    given = [Outgoing(str(n), {"partition_key": "a"}, line=n + 1) for n in range(2)]
    refused, invalid = send_messages.Progress(), send_messages.Progress()

    with pytest.raises(PartitionUnavailableError):
        send_messages.send(client, "q", given, lambda count: None, refused)  # type: ignore[arg-type]
    client.failure = InvalidArgumentError(message="body: no text")
    with pytest.raises(InvalidArgumentError):
        send_messages.send(client, "q", [Outgoing("x")] * 3, lambda count: None, invalid)  # type: ignore[arg-type]

    assert (refused.uncertain, invalid.uncertain) == (0, 0)


def test_a_batch_that_may_have_been_split_is_uncertain_when_one_part_fails() -> None:
    client = FakeClient()
    client.failing, client.failure = 1, PartitionUnavailableError(message="away")
    given = [Outgoing(str(n), {"message_id": str(n)}, line=n + 1) for n in range(3)]
    progress = send_messages.Progress()

    with pytest.raises(PartitionUnavailableError):
        send_messages.send(client, "q", given, lambda count: None, progress)  # type: ignore[arg-type]

    assert progress.uncertain == 3


@pytest.mark.requirement("R364")
@pytest.mark.parametrize(
    ("found", "code"),
    [(errors.EntityNotFound, 3), (errors.InvalidOperation, 1), (errors.ServiceTimeout, 4)],
)
def test_errors_of_administration_become_those_of_the_cli(
    found: type[errors.BusError], code: int
) -> None:
    target = Target("Endpoint=sb://h;UseDevelopmentEmulator=true", None)

    with pytest.raises(CliError, match="sentence") as raised, messages.translated(target):
        raise from_management_error(found("sentence"))

    assert raised.value.exit_code == code
