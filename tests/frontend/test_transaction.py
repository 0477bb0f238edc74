"""What one transaction may hold, said with each operation."""

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from bendybus.frontend.core.transact import Operation
from bendybus.frontend.upstreams.unary_calls import SettlePart
from tests.frontend.transactions import (
    ELSEWHERE,
    HOME,
    KEY,
    collected,
    directory,
    in_session,
    send,
    settle,
)


@pytest.mark.requirement("R122", "R222")
@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ([send("")], "needs a partition key"),
        ([settle(1), send("")], "needs a partition key"),
        ([send("", entity="unique")], "needs a partition key"),
        ([send(KEY), send("another")], "same partition key"),
        ([send(KEY, "another")], "same partition key"),
        ([in_session("a"), in_session("b")], "same partition key"),
        ([in_session("a", key="b")], "differs from SessionId"),
        ([in_session("a", "b", entity="sessions")], "same partition key"),
        ([in_session("a", key="b", entity="sessions")], "differs from SessionId"),
        ([send(KEY, entity="sessions")], "The SessionId was not set"),
        ([send(KEY, entity="plain-sessions")], "The SessionId was not set"),
        ([in_session("a", key="b", entity="plain")], "differs from SessionId"),
    ],
)
def test_messages_sent_to_a_partitioned_queue_have_one_key(
    operations: list[Operation], says: str
) -> None:
    with pytest.raises(errors.InvalidOperation, match=says):
        collected(*operations)


@pytest.mark.requirement("R122", "R222")
@pytest.mark.parametrize(
    "operations",
    [
        [send(KEY, KEY), send(KEY)],
        [in_session("a", "a"), send("a")],
        [in_session("a", key="a")],
        [send("", "", entity="unique", message_ids=["m", "m"])],
        [send("", entity="plain"), send(KEY, entity="plain"), send("b", entity="plain")],
        [in_session("a", "b", entity="plain"), in_session("c", entity="plain")],
        [in_session("a", "a", entity="sessions")],
        [in_session("a", "b", entity="plain-sessions")],
        [send(KEY), settle(1, 2), settle(3, disposition=Disposition.DEFER)],
        [settle(1, disposition=Disposition.RENEW_LOCK), settle(1)],
    ],
)
def test_what_is_in_one_partition_may_be_one_transaction(operations: list[Operation]) -> None:
    assert len(collected(*operations).operations) == len(operations)


@pytest.mark.requirement("R123")
def test_messages_of_several_partitions_are_refused_and_the_partitions_named() -> None:
    with pytest.raises(errors.InvalidOperation, match="partitions 0, 2") as refused:
        collected(settle(1, partition=2), settle(2, partition=0))
    assert refused.value.metadata["partitions"] == "0, 2"
    with pytest.raises(errors.InvalidOperation, match=f"{min(HOME, ELSEWHERE)}, "):
        collected(send(KEY), settle(1, partition=ELSEWHERE))
    with pytest.raises(errors.InvalidOperation, match="partitions 1, 2"):
        collected(send("", entity="plain"), settle(1, partition=1, entity="plain"))


@pytest.mark.requirement("R232")
def test_messages_of_two_sessions_are_settled_together_only_on_a_plain_queue() -> None:
    one, other = b"1" * 16, b"2" * 16
    same = collected(
        settle(1, entity="sessions", session=one),
        settle(2, entity="sessions", session=one),
        settle(3, entity="sessions", session=one),
    )
    assert len(same.operations) == 3
    with pytest.raises(errors.InvalidOperation, match=r"different sessions .*got 2 sessions"):
        collected(
            settle(1, entity="sessions", session=one), settle(2, entity="sessions", session=other)
        )
    both = collected(
        settle(1, partition=1, entity="plain-sessions", session=one),
        settle(2, partition=1, entity="plain-sessions", session=other),
    )
    assert len(both.operations) == 2
    with pytest.raises(errors.InvalidArgument, match="must be 16 bytes"):
        collected(settle(1, entity="sessions", session=b"short"))


@pytest.mark.requirement("R123", "R238")
def test_a_transaction_settles_messages_of_one_entity() -> None:
    for before in ([], [send(KEY, entity="other")]):
        with pytest.raises(errors.InvalidOperation, match="cannot span multiple top-level entit"):
            collected(*before, settle(1), settle(2, entity="other"))


@pytest.mark.requirement("R513")
def test_what_is_sent_before_the_first_settlement_goes_through_the_entity_that_settles() -> None:
    made = collected(
        send(KEY, entity="other"), send("", entity="plain"), send(KEY), settle(1), send(KEY)
    )

    assert (made.partition, made.entity and made.entity.name) == (HOME, "orders")
    kinds = [type(operation.part).__name__ for operation in made.operations]
    assert kinds == ["TransferPart", "TransferPart", "SendPart", "SettlePart", "SendPart"]


@pytest.mark.requirement("R513")
def test_a_settlement_that_is_refused_leaves_what_was_sent_as_it_was() -> None:
    made = collected(send(KEY, entity="other"))

    with pytest.raises(errors.InvalidOperation, match="one partition"):
        made.collect([settle(1), settle(2, partition=ELSEWHERE)], directory())

    assert made.entity is not None
    assert made.entity.name == "other"
    assert [type(operation.part).__name__ for operation in made.operations] == ["SendPart"]


@pytest.mark.requirement("R235", "R238")
def test_what_is_sent_to_other_entities_is_kept_apart() -> None:
    made = collected(
        settle(1),
        send("a", entity="other"),
        send("another", "key", entity="plain"),
        in_session("a", "a", entity="sessions"),
        send("a", entity="news"),
    )

    assert (made.partition, made.entity and made.entity.name) == (HOME, "orders")
    kinds = [type(operation.part).__name__ for operation in made.operations]
    assert kinds == ["SettlePart"] + ["TransferPart"] * 4


@pytest.mark.requirement("R238")
@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ([send(KEY, entity="news"), send(KEY, entity="other")], "Begin with an operation on"),
        ([settle(1), send(KEY, entity="nowhere")], "nowhere"),
        ([settle(1), send(KEY, entity="sessions")], "The SessionId was not set"),
        ([settle(1), in_session("a", key="b", entity="other")], "differs from SessionId"),
        ([settle(1), send("k" * 129, entity="other")], "128 characters"),
        ([settle(1), send(KEY, entity="other", sub_queue=SubQueue.DEAD_LETTER)], "dead-letter"),
        ([settle(1), send(*[KEY] * 100, entity="other")], "1 to 100 messages"),
        # Counted before the messages are looked at one by one.
        ([send(*[KEY] * 101, time_to_live_ms=[-1] * 101)], "1 to 100 messages"),
    ],
)
def test_what_cannot_be_sent_to_another_entity_is_refused_at_once(
    operations: list[Operation], says: str
) -> None:
    with pytest.raises(errors.BusError, match=says):
        collected(*operations)


@pytest.mark.requirement("R122")
@pytest.mark.parametrize(
    ("operation", "says"),
    [
        (send(KEY, sub_queue=SubQueue.DEAD_LETTER), "dead-letter sub-queue"),
        (settle(1, disposition=Disposition.RELEASE), "a settlement or a renewal"),
        (settle(1, 1), "settled only once"),
        (Operation("orders", SubQueue.MAIN, SettlePart(Disposition.COMPLETE, b"")), "1 to 5000"),
        (send("k" * 129), "128 characters"),
        (send(), "at least one"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(operation: Operation, says: str) -> None:
    with pytest.raises(errors.BusError, match=says):
        collected(operation)
    with pytest.raises(errors.InvalidOperation, match="settled only once"):
        collected(settle(1), settle(1))
    with pytest.raises(errors.InvalidOperation, match="Basic tier"):
        collected(send(KEY), tier=Tier.BASIC)


@pytest.mark.requirement("R122")
def test_an_operation_that_is_refused_leaves_the_transaction_as_it_was() -> None:
    made = collected(send(KEY))
    size_bytes = made.size_bytes

    with pytest.raises(errors.InvalidOperation):
        made.collect([send(KEY), send("another")], directory())

    assert (len(made.operations), made.size_bytes) == (1, size_bytes)
    made.collect([send(KEY)], directory())


@pytest.mark.requirement("R124")
def test_a_transaction_has_100_messages_and_not_one_more() -> None:
    made = collected(settle(*range(60)), send(*[KEY] * 40))

    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        made.collect([send(KEY)], directory())
    with pytest.raises(errors.InvalidOperation, match="1 to 100 messages"):
        collected(send(*[KEY] * 101))
    with pytest.raises(errors.InvalidOperation, match="bytes at most"):
        collected(*[send(KEY, body=bytes(limits.MB))] * 9)
    with pytest.raises(errors.InvalidOperation, match="got 0"):
        collected().check_size()


@pytest.mark.requirement("R124")
def test_a_transaction_is_committed_within_two_minutes() -> None:
    made = collected(send(KEY))

    made.check_age(limits.TRANSACTION_MS_MAX)
    with pytest.raises(errors.InvalidOperation, match="within 120 s"):
        made.check_age(limits.TRANSACTION_MS_MAX + 1)


@pytest.mark.requirement("R327")
@pytest.mark.parametrize(
    ("operations", "says"),
    [
        ([send("", entity="plain"), send("")], "needs a partition key"),
        ([send("", entity="plain"), send(KEY), send("another")], "same partition key"),
        ([send("", entity="plain"), send(KEY), send("another", entity="unique")], "same partition"),
        ([send(KEY), send("another", entity="unique")], "same partition key"),
        ([send("", entity="plain"), in_session("a", "b", entity="sessions")], "same partition key"),
        (
            [send("another", entity="unique"), send("", entity="plain"), send(KEY), settle(1)],
            "same",
        ),
    ],
)
def test_the_rules_of_partitioned_entities_hold_whichever_comes_first(
    operations: list[Operation], says: str
) -> None:
    with pytest.raises(errors.InvalidOperation, match=says):
        collected(*operations)


@pytest.mark.requirement("R327")
@pytest.mark.parametrize(
    "operations",
    [
        [send("", entity="plain"), send(KEY), send("", entity="plain"), send(KEY, entity="unique")],
        [send(KEY), send("", entity="plain"), send("another", entity="plain"), send(KEY)],
    ],
)
def test_messages_of_plain_entities_need_no_key_beside_others(operations: list[Operation]) -> None:
    collected(*operations)
