"""What applications read under the logger `bendybus`."""

import asyncio
import logging
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusClient, ServiceBusMessage, aio
from bendybus.client.core import settings
from bendybus.client.core.retry_policy import Outage
from bendybus.domain.errors import (
    BusError,
    EntityDisabled,
    EntityDrained,
    PartitionUnavailable,
    RetryableError,
    SessionCannotBeLocked,
)
from bendybus.v1.receiver_pb2 import ReceiveStreamResponse
from bendybus.wire import statuses, streams
from tests.client.conftest import RETRY
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.test_session_leaving import stream_of
from tests.client.test_session_order import Waiter


class _Refused:
    """A stream that is answered with one error frame, and closed cleanly."""

    def __init__(self, error: BusError) -> None:
        self._frames = [ReceiveStreamResponse(error=statuses.to_error(error))]

    async def wait_for_connection(self) -> None:
        """Be connected."""

    async def initial_metadata(self) -> grpc.aio.Metadata:
        """Admit the stream."""
        return grpc.aio.Metadata(streams.ADMITTED)

    async def write(self, request: Any) -> None:
        """Take the opening."""

    async def read(self) -> Any:
        """Return the error, then the end."""
        return self._frames.pop() if self._frames else grpc.aio.EOF

    async def code(self) -> grpc.StatusCode:
        """Return the status."""
        return grpc.StatusCode.OK

    async def details(self) -> str:
        """Return no details."""
        return ""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SessionCannotBeLocked("another receiver has it."), []),
        (EntityDrained("queue 'q' is drained."), []),
        (EntityDisabled("queue 'q' is disabled."), ["queue 'q' is disabled."]),
    ],
)
async def test_what_another_receiver_or_a_pipeline_has_is_no_outage(
    error: BusError, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bendybus")
    stream = stream_of(retries=5)

    async def refused() -> Any:
        return _Refused(error)

    stream._open_call = refused
    stream.open_session(Waiter())
    running = asyncio.get_running_loop().create_task(stream.stream.run())
    for _ in range(100):
        await asyncio.sleep(0)
    running.cancel()

    # The first of them: a call that is repeated says it again.
    texts = [text.rpartition(" s: ")[2] for text in said(caplog, logging.WARNING)]
    assert texts[:1] == expected
    assert error.message in said(caplog, logging.INFO)[0]


async def test_a_stream_that_breaks_and_a_call_that_is_repeated_are_logged(
    fake: FakeFrontEnd, sender: Any, receiver: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="bendybus")
    fake.break_send_streams = 1
    fake.call_errors = [PartitionUnavailable("partition 3 does not answer.")]

    await sender.send_messages(ServiceBusMessage("b"))
    await receiver.peek_messages()

    lines = said(caplog, logging.INFO)
    assert any("send stream to 127.0.0.1" in text and "reconnecting in" in text for text in lines)
    assert any("partition 3 does not answer" in text and "retrying in" in text for text in lines)


def test_a_bus_that_answered_before_and_is_gone_is_not_taken_for_one_with_tls(
    fake: FakeFrontEnd,
) -> None:
    gone = RetryableError("Socket closed (UNAVAILABLE)")
    with ServiceBusClient.from_connection_string(fake.connection_string) as client:
        connection = client._shared.get()
        before = connection.explained(gone).message
        with client.get_queue_sender("q") as sender:
            sender.send_messages(ServiceBusMessage("b"))

        assert "UseDevelopmentEmulator" in before
        assert connection.explained(gone) is gone


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "bendybus.client" and record.levelno >= level
    ]


def test_an_outage_is_one_line_however_many_streams_break_and_one_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="bendybus")
    found, streams = Outage("bus:7480"), [object() for _ in range(20)]

    for attempt in range(10):
        for index, stream in enumerate(streams):
            found.broke(stream, f"receiver {index}", 0.5, "refused", float(attempt))
    for stream in streams:
        found.back(stream, 12.0)

    assert said(caplog, logging.WARNING) == [
        "client: receiver 0 broke, reconnecting in 0.5 s: refused",
        "client: bus:7480 answers again after 12.0 s",
    ]
    assert len(said(caplog, logging.DEBUG)) == 201


def test_an_outage_that_lasts_is_logged_again_each_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    found, stream = Outage("bus:7480"), object()

    for second in range(0, 122, 2):
        found.broke(stream, "send stream", 2.0, "refused", float(second))

    assert said(caplog, logging.WARNING)[1:] == [
        "client: bus:7480 has been unavailable for 60 s, 31 tries: refused",
        "client: bus:7480 has been unavailable for 120 s, 61 tries: refused",
    ]


def test_callers_that_give_up_and_come_again_are_in_the_same_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    found, stream, other = Outage(), object(), object()

    for second in range(5):
        found.broke(stream, "receiver", 0.5, "refused", float(second))
        found.ended(stream)
    found.back(other, 5.0)
    found.back(stream, 6.0)
    found.broke(stream, "receiver", 0.5, "refused", 9.0)

    assert said(caplog, logging.WARNING) == [
        "client: receiver broke, reconnecting in 0.5 s: refused",
        "client: the bus answers again after 5.0 s",
        "client: receiver broke, reconnecting in 0.5 s: refused",
    ]


def test_the_time_that_nothing_was_sent_is_no_part_of_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    day_s = 86_400.0
    found, stream = Outage("bus:7480"), object()

    found.broke(stream, "send stream", 0.5, "refused", 0.0)
    found.ended(stream)
    found.back(stream, day_s)
    found.broke(stream, "send stream", 0.5, "refused", day_s + 1)
    found.ended(stream)
    found.broke(stream, "send stream", 0.5, "refused", 2 * day_s)
    found.back(stream, 2 * day_s + 3)

    assert said(caplog, logging.WARNING) == [
        "client: send stream broke, reconnecting in 0.5 s: refused",
        "client: bus:7480 answers again; the last attempt was 86400 s ago",
        "client: send stream broke, reconnecting in 0.5 s: refused",
        "client: send stream broke, reconnecting in 0.5 s: refused",
        "client: bus:7480 answers again after 3.0 s",
    ]


def test_an_attempt_that_takes_long_is_part_of_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    found, stream = Outage("bus:7480"), object()

    found.broke(stream, "send stream", 0.5, "refused", 0.0)
    found.back(stream, 300.0)

    assert said(caplog, logging.WARNING)[1:] == ["client: bus:7480 answers again after 300.0 s"]


async def test_the_streams_of_a_client_share_what_is_logged_of_an_outage(
    fake: FakeFrontEnd, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="bendybus")
    fake.break_receive_streams = 10
    async with aio.ServiceBusClient.from_connection_string(
        fake.connection_string, **RETRY
    ) as client:
        receivers = [client.get_queue_receiver("q") for _ in range(10)]
        await asyncio.gather(*(receiver.receive_messages(1, 1) for receiver in receivers))

    assert len([text for text in said(caplog, logging.WARNING) if " broke, " in text]) == 1


async def test_whether_a_bus_speaks_tls_is_asked_once_for_all_that_wait(
    fake: FakeFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    speaks_tls = settings.speaks_tls

    async def counted(target: str) -> bool:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.05)
        return await speaks_tls(target)

    monkeypatch.setattr(settings, "speaks_tls", counted)
    async with aio.ServiceBusClient(f"127.0.0.1:{fake.port}", ("k", "s")) as client:
        receivers = [client.get_queue_receiver("q") for _ in range(10)]
        await asyncio.gather(*(receiver.receive_messages(1, 1) for receiver in receivers))

    assert asked == 1
