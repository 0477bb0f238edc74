"""What a transaction may hold, and how it is told on the contract."""

import os
from dataclasses import replace
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.limits import Tier
from bendybus.internal.v1 import partition_pb2
from bendybus.partition_server.service import conversions
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, Ask, Transact
from bendybus.v1 import receiver_pb2
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.publishing import head, rows
from tests.partition_server.topic_changes import make_news
from tests.partition_server.transacting import ID, KEY, locked, sending, settling, transact


@pytest.mark.requirement("R95")
def test_messages_of_a_partitioned_queue_need_the_same_key(queue: Driver) -> None:
    keyless = Append(None, queue.ref(), Batch([b"one"]))

    for parts in ([keyless], [sending(queue.ref(), b"a"), sending(queue.ref(), b"b", key="other")]):
        refused = transact(queue, *parts, id_=os.urandom(16))
        assert isinstance(refused.error, errors.InvalidOperation)
        assert "partition key" in str(refused.error)
    assert queue.counts().active == 0


@pytest.mark.requirement("R95", "R222")
def test_messages_of_a_plain_queue_need_no_key_and_may_be_of_several_sessions() -> None:
    driver = Driver(MemoryStore(fingerprint(partition=0, count=1)))
    driver.create()
    parts = [Append(None, driver.ref(), Batch([b"x"], session_ids=[name])) for name in "ab"]

    done = transact(driver, Append(None, driver.ref(), Batch([b"x"])), *parts)

    assert done.error is None
    assert driver.counts().active == 3


@pytest.mark.requirement("R96")
def test_a_transaction_has_a_hundred_messages_at_most(queue: Driver) -> None:
    tokens = locked(queue, 1)
    most = limits.TRANSACTION_MESSAGES_MAX

    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        transact(
            queue,
            settling(Disposition.COMPLETE, *tokens),
            sending(queue.ref(), *[b"x"] * most),
        )
    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        transact(queue)
    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        transact(
            queue, settling(Disposition.COMPLETE, *tokens), *[settling(Disposition.DEFER)] * most
        )
    done = transact(
        queue, settling(Disposition.COMPLETE, *tokens), sending(queue.ref(), *[b"x"] * (most - 1))
    )

    assert done.error is None
    assert queue.counts().active == most - 1


@pytest.mark.requirement("R96")
def test_the_bytes_of_a_transaction_are_bounded(queue: Driver) -> None:
    large = [sending(queue.ref(), b"x" * limits.MB) for _ in range(9)]

    with pytest.raises(errors.InvalidOperation, match="bytes at most"):
        transact(queue, *large)

    assert transact(queue, *large[:8]).error is None


def test_the_basic_tier_has_no_transactions() -> None:
    driver = Driver(MemoryStore(fingerprint(tier=Tier.BASIC)))
    driver.create(enable_partitioning=True)

    with pytest.raises(errors.InvalidOperation, match="Basic"):
        transact(driver, sending(driver.ref(), b"x"))


def test_messages_of_other_entities_are_lost_to_it(queue: Driver) -> None:
    queue.create("other")
    queue.run(sending(queue.ref("other"), b"x"))
    answers = queue.run(Ask("s", 1, queue.ref("other"), False, 1, 1 << 20))
    [(_, token)] = queue.tokens(answers[0])

    refused = transact(queue, settling(Disposition.COMPLETE, token))

    assert isinstance(refused.error, errors.MessageLockLost)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"id_": b"short"}, errors.InvalidArgument),
        ({"deadline_mono_ms": 1}, errors.ServiceTimeout),
    ],
)
def test_what_refuses_it_for_now_is_not_remembered(
    queue: Driver, options: dict[str, Any], error: type[errors.BusError]
) -> None:
    with pytest.raises(error):
        transact(queue, sending(queue.ref(), b"x"), **options)

    assert transact(queue, sending(queue.ref(), b"x"), age_ms=1).error is None


@pytest.mark.parametrize("disposition", [Disposition.RELEASE])
def test_what_is_no_settlement_is_refused(queue: Driver, disposition: Disposition) -> None:
    [token] = locked(queue, 1)

    refused = transact(queue, settling(disposition, token))

    assert isinstance(refused.error, errors.InvalidArgument)


def test_the_contract_carries_every_part_and_every_outcome(queue: Driver) -> None:
    tokens = locked(queue, 2)
    ref = queue.ref()
    request = partition_pb2.TransactRequest(
        entity=partition_pb2.EntityRef(uid=ref.uid, generation=ref.generation),
        transaction_id=ID,
        parts=[
            partition_pb2.TransactionPart(
                settle=partition_pb2.TransactionSettle(
                    disposition=receiver_pb2.DISPOSITION_RENEW_LOCK, lock_tokens=tokens[0]
                )
            ),
            partition_pb2.TransactionPart(),
        ],
    )
    request.parts[1].send.batch.messages.append(b"one")
    request.parts[1].send.batch.partition_keys.append(KEY)

    [done] = queue.run(conversions.transact_command(request, "t"))
    response = conversions.transact_response(done)

    assert not response.HasField("refusal")
    assert response.outcomes[0].lock_remaining_ms == 60_000
    assert len(response.outcomes[1].sequence_numbers) == 1

    request.transaction_id = b"another-one-0002"
    request.parts[0].settle.lock_tokens = b"\0" * 16
    [refused] = queue.run(conversions.transact_command(request, "t"))
    response = conversions.transact_response(refused)
    assert response.refusal.part == 0
    assert response.refusal.error.reason == errors.MessageLockLost.reason


@pytest.mark.parametrize(
    "part",
    [
        partition_pb2.TransactionPart(),
        partition_pb2.TransactionPart(
            settle=partition_pb2.TransactionSettle(lock_tokens=b"\0" * 16)
        ),
    ],
)
def test_a_part_that_says_nothing_is_refused(part: partition_pb2.TransactionPart) -> None:
    with pytest.raises(errors.InvalidArgument):
        conversions.transact_command(partition_pb2.TransactRequest(parts=[part]), "t")


def test_messages_are_sent_to_a_session_in_a_transaction(driver: Driver) -> None:
    driver.put(QueueDescription(requires_session=True))
    sessions: dict[str, Any] = {"session_ids": [KEY], "session_present": [True]}

    done = transact(driver, sending(driver.ref(), b"x", **sessions))

    assert done.error is None
    assert driver.counts().active == 1


@pytest.mark.requirement("R268")
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 2), (3,)])
def test_the_copies_that_a_transaction_makes_in_subscriptions_are_bounded(
    driver: Driver, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_news(driver)
    ref = driver.ref("news")

    def publish(*counts: int, id_: bytes) -> Any:
        parts = []
        for count in counts:
            part = sending(ref, *[b"x"] * count, heads=[head()] * count, formats=[1] * count)
            # Each message a group of its own.
            parts.append(replace(part, group_sizes=[1] * count))
        [value] = driver.run(Transact("t", ref, id_, tuple(parts)))
        return value

    monkeypatch.setattr(limits, "TRANSACTION_COPIES_MAX", 6)
    at = publish(*shape, id_=b"at-the-limit-000")
    monkeypatch.setattr(limits, "TRANSACTION_COPIES_MAX", 5)
    past = publish(*shape, id_=b"past-the-limit-0")

    assert at.error is None
    assert isinstance(past.error, errors.InvalidOperation)
    assert "in a transaction" in past.error.message
    assert len(rows(driver, "a")) == len(rows(driver, "b")) == 3
