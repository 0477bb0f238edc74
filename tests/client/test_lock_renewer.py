"""Locks that are renewed in the background."""

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus import client as sync_client
from bendybus.client import ServiceBusMessage, ServiceBusReceiveMode, aio, exceptions
from bendybus.client.core.lock_renewer import Renewal, RenewalSchedule
from bendybus.client.core.settlements import Outcome
from bendybus.client.exceptions import AutoLockRenewFailed, AutoLockRenewTimeout, ServiceBusError
from bendybus.v1 import receiver_pb2
from tests.client.fake_front_end import FakeFrontEnd


async def eventually(condition: Any) -> None:
    """Wait until `condition()` holds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_locks_are_renewed_together_while_the_loop_is_busy(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    queue = fake.add_queue("short", lock_ms=800)
    await asynchronous.get_queue_sender("short").send_messages(
        [ServiceBusMessage("x") for _ in range(3)]
    )
    async with aio.AutoLockRenewer() as renewer:
        receiver = asynchronous.get_queue_receiver("short", auto_lock_renewer=renewer)
        messages = await receiver.receive_messages(3)

        # On purpose: nothing of the application's loop runs meanwhile.
        time.sleep(1.6)  # noqa: ASYNC251 - blocking is the point
        await receiver.complete_messages(messages)

    assert not queue.messages
    renewals = [
        frame
        for frame in fake.settle_frames
        if frame.disposition == receiver_pb2.DISPOSITION_RENEW_LOCK
    ]
    assert renewals
    assert all(len(frame.lock_tokens) == 48 for frame in renewals)


async def test_a_lost_lock_is_reported_on_the_applications_loop(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    queue = fake.add_queue("short", lock_ms=600)
    reported: list[tuple[Any, Any, bool]] = []

    async def report(message: Any, error: Any) -> None:
        on_loop = threading.current_thread() is threading.main_thread()
        reported.append((message, error, on_loop))

    await asynchronous.get_queue_sender("short").send_messages(ServiceBusMessage("x"))
    async with aio.AutoLockRenewer(on_lock_renew_failure=report) as renewer:
        receiver = asynchronous.get_queue_receiver("short", auto_lock_renewer=renewer)
        [message] = await receiver.receive_messages()
        queue.messages[message.sequence_number or 0].token = b""
        await eventually(lambda: reported)

    assert reported[0][0] is message
    assert isinstance(reported[0][1], AutoLockRenewFailed)
    assert message.auto_renew_error is reported[0][1]
    assert reported[0][2]


async def test_renewing_ends_with_its_duration(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    await asynchronous.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
    receiver = asynchronous.get_queue_receiver("q")
    [message] = await receiver.receive_messages()

    async with aio.AutoLockRenewer(max_lock_renewal_duration=0.1) as renewer:
        renewer.register(receiver, message)
        await eventually(lambda: message.auto_renew_error)

    assert isinstance(message.auto_renew_error, AutoLockRenewTimeout)


async def test_the_synchronous_renewer_calls_back_on_a_thread_of_its_own(
    fake: FakeFrontEnd, sync: sync_client.ServiceBusClient
) -> None:
    queue = fake.add_queue("short", lock_ms=600)
    names: list[str] = []
    sync.get_queue_sender("short").send_messages(ServiceBusMessage("x"))

    with sync_client.AutoLockRenewer(
        on_lock_renew_failure=lambda message, error: names.append(threading.current_thread().name)
    ) as renewer:
        receiver = sync.get_queue_receiver("short", auto_lock_renewer=renewer)
        [message] = receiver.receive_messages()
        queue.messages[message.sequence_number or 0].token = b""
        await eventually(lambda: names)

    assert names[0].startswith("bendybus-callback")


async def test_what_has_no_lock_is_refused(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    await asynchronous.get_queue_sender("q").send_messages(ServiceBusMessage("x"))
    receiver = asynchronous.get_queue_receiver("q")
    [peeked] = await receiver.peek_messages()
    renewer = aio.AutoLockRenewer()

    with pytest.raises(ValueError, match="no lock"):
        renewer.register(receiver, peeked)
    with pytest.raises(ValueError, match="auto_lock_renewer"):
        asynchronous.get_queue_receiver(
            "q",
            receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE,
            auto_lock_renewer=renewer,
        )
    await renewer.close()
    with pytest.raises(ServiceBusError, match="closed"):
        renewer.register(receiver, peeked)
    assert issubclass(AutoLockRenewFailed, exceptions.ServiceBusError)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (exceptions.PartitionUnavailableError(message="away"), True),
        (exceptions.OutcomeUnknownError(message="unknown"), True),
        (exceptions.MessageLockLostError(message="lost"), False),
    ],
)
async def test_only_a_lost_lock_ends_its_renewal(error: ServiceBusError, kept: bool) -> None:
    told: list[Any] = []
    renewing = RenewalSchedule(asyncio.get_running_loop(), lambda entry, why: told.append(why))
    now_ms = round(time.time() * 1_000)
    delivered = SimpleNamespace(lock_end_s=time.monotonic() + 60, locked_until_ms=now_ms + 60_000)
    message: Any = SimpleNamespace(
        _delivered=delivered, _locked_until_ms=now_ms + 60_000, _settled=False
    )
    # A stand-in for a stream.
    entry = Renewal(SimpleNamespace(), message, 600.0, lambda *_: None)  # type: ignore[arg-type]
    renewing.add(entry)

    renewing.done([entry], Outcome([(0, error)], 0))

    assert (told == []) is kept
    assert (entry in renewing._renewals) is kept
    renewing.close()


class Full(aio.AutoLockRenewer):
    """A renewer that takes one message."""

    def register(self, receiver: Any, renewable: Any, *args: Any, **kwargs: Any) -> None:
        """Register it."""
        if self._renewing is not None:
            raise ServiceBusError("full")
        super().register(receiver, renewable, *args, **kwargs)


@pytest.mark.requirement("R485")
@pytest.mark.parametrize("deferred", [False, True])
async def test_messages_that_cannot_be_registered_are_given_back(
    fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient, deferred: bool
) -> None:
    async with Full() as renewer:
        sender = asynchronous.get_queue_sender("q")
        await sender.send_messages([ServiceBusMessage("1"), ServiceBusMessage("2")])
        other = asynchronous.get_queue_receiver("q", max_wait_time=5)
        if deferred:
            for message in await _all_of(other, 2):
                await other.defer_message(message)
        numbers = list(fake.queues["q"].messages)
        receiver = asynchronous.get_queue_receiver("q", auto_lock_renewer=renewer)

        receiving = (
            receiver.receive_deferred_messages(numbers)
            if deferred
            else receiver.receive_messages(2, max_wait_time=5)
        )

        with pytest.raises(ServiceBusError, match="full"):
            await receiving

        stored = list(fake.queues["q"].messages.values())
        await eventually(lambda: not any(each.token for each in stored))
        again = await (other.receive_deferred_messages(numbers) if deferred else _all_of(other, 2))

    assert len(again) == 2
    assert [message.delivery_count for message in again] == [0, 0]


async def _all_of(receiver: aio.ServiceBusReceiver, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += await receiver.receive_messages(count)
    return found
