"""What is asked of a partition while its rules have bugs: each with its neighbours in the turn."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bendybus.domain.disposition import Disposition as D
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.message_state import MessageState
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.commands import (
    Append,
    ApplyEntity,
    Ask,
    CancelScheduled,
    CommitEntity,
    Counts,
    DeleteMessages,
    Deliver,
    Peek,
    ReceiveDeferred,
    Release,
    Settle,
    StreamEnded,
    TakeForwarded,
    Transact,
    Withdraw,
)  # fmt: skip
from bendybus.partition_server.state.lanes import ForwardOutcome, Outgoing
from bendybus.partition_server.store.records import ForwardSource
from tests.partition_server import topic_changes
from tests.partition_server.driver import Driver

EVERY = frozenset(MessageState)


@dataclass
class Plan:
    """One turn: the command whose rule has a bug, None for sweeps, between its neighbours."""

    target: Any = None
    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    advance_ms: int = 0
    # Refused, it is as if it had not come; False: it ends something all the same.
    comparable: bool = True


Scenario = Callable[[Driver], Plan]


def make_queues(driver: Driver, **changes: Any) -> None:
    driver.create(lock_duration_ms=5_000, **changes)
    driver.create("other")


def append(driver: Driver, *payloads: bytes, name: str = "orders", **columns: Any) -> Append:
    extra = {
        k: columns.pop(k) for k in list(columns) if k.startswith("producer") or k == "group_sizes"
    }
    return Append("t", driver.ref(name), Batch(list(payloads), **columns), **extra)


def named(
    driver: Driver, *payloads: bytes, name: str = "orders", sequence: int = 9, **columns: Any
) -> Append:
    return append(
        driver,
        *payloads,
        name=name,
        producer_id=b"p" * 16,
        producer_sequence=sequence,
        group_sizes=[1] * len(payloads),
        **columns,
    )


def _around(driver: Driver, target: Any, *, name: str = "orders", **columns: Any) -> Plan:
    """Return a turn in which others send to the same queue before and after."""
    return Plan(
        target,
        [named(driver, b"before", name=name, sequence=1, **columns)],
        [named(driver, b"after", name=name, sequence=2, **columns)],
    )


def send(driver: Driver) -> Plan:
    make_queues(driver, default_message_time_to_live_ms=60_000)
    target = named(
        driver,
        b"a",
        b"b",
        message_ids=["a", "b"],
        time_to_live_ms=[0, 500],
        scheduled_ms=[driver.wall_ms + 900, 0],
    )
    return _around(driver, target)


def send_detecting(driver: Driver) -> Plan:
    make_queues(driver, requires_duplicate_detection=True)
    driver.send(b"known", message_ids=["k"])
    target = named(driver, b"a", b"b", b"k", message_ids=["a", "b", "k"])
    return _around(driver, target, message_ids=["n"])


def send_repeat(driver: Driver) -> Plan:
    make_queues(driver)
    driver.run(named(driver, b"a"))
    return _around(driver, named(driver, b"a", b"b"))


def _settling(disposition: D, **options: Any) -> Callable[[Driver], Plan]:
    def scenario(driver: Driver) -> Plan:
        make_queues(driver, max_delivery_count=2)
        driver.send(b"0", b"1", b"2", b"3", b"4", b"5", time_to_live_ms=[0, 0, 0, 0, 0, 5_000])
        pairs = driver.receive(6)
        # Once more: the next delivery is the last.
        driver.settle(D.ABANDON, pairs[0][1], changed_properties=b"\x0a\x00")
        again = driver.receive(1)
        tokens = [again[0][1], *(token for _, token in pairs[1:5])]
        target = Settle("s", 1, disposition, b"".join(tokens[:3]), settler_id=b"r" * 16, **options)
        neighbour = Settle("s", 2, D.COMPLETE, tokens[3])
        plan = _around(driver, target)
        plan.before.insert(0, neighbour)
        plan.after.append(Settle("s", 3, D.ABANDON, tokens[4]))
        return plan

    return scenario


def settle_expired(driver: Driver) -> Plan:
    make_queues(driver, dead_lettering_on_message_expiration=True)
    driver.send(b"0", b"1", b"2", time_to_live_ms=[1_000, 1_000, 0])
    tokens = b"".join(token for _, token in driver.receive(3))
    driver.advance(2_000)
    return _around(driver, Settle("s", 1, D.ABANDON, tokens))


def deliver_reserved(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1")
    [reserved] = driver.reserve(2)
    tokens = b"".join(token for _, token in driver.tokens(reserved))
    # Its client has them, whatever becomes of this.
    return replace(_around(driver, Deliver("s", 1, tokens)), comparable=False)


def deliver_delete(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1")
    [reserved] = driver.reserve(2, delete=True)
    tokens = b"".join(token for _, token in driver.tokens(reserved))
    return _around(driver, Deliver("s", 1, tokens))


def release(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1")
    [reserved] = driver.reserve(2)
    tokens = b"".join(token for _, token in driver.tokens(reserved))
    return _around(driver, Release("s", tokens))


def stream_ended(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1")
    driver.reserve(2)
    driver.reserve(2, dead_letter=True)
    return replace(_around(driver, StreamEnded("s")), comparable=False)


def ask(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1", b"2")
    return _around(driver, Ask("s", 5, driver.ref(), False, 4, 1 << 20))


def withdraw(driver: Driver) -> Plan:
    make_queues(driver)
    driver.reserve(2)
    return replace(_around(driver, Withdraw("s", driver._ids)), comparable=False)


def peek(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1")
    return _around(driver, Peek("t", driver.ref(), 0, 9, 1 << 20))


def counts(driver: Driver) -> Plan:
    make_queues(driver)
    return _around(driver, Counts("t"))


def receive_deferred(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1", b"2")
    driver.settle(D.DEFER, *(token for _, token in driver.receive(2)))
    return _around(driver, ReceiveDeferred("t", driver.ref(), False, [1, 2]))


def delete_deferred(driver: Driver) -> Plan:
    plan = receive_deferred(driver)
    plan.target = ReceiveDeferred("t", driver.ref(), True, [1, 2], operation_id=b"o" * 16)
    return plan


def cancel(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1", scheduled_ms=[driver.wall_ms + 9_000] * 2)
    return _around(driver, CancelScheduled("t", driver.ref(), [1, 2], operation_id=b"o" * 16))


def delete_messages(driver: Driver) -> Plan:
    make_queues(driver)
    driver.send(b"0", b"1", b"2")
    driver.settle(D.ABANDON, driver.receive(1)[0][1], delay_ms=60_000)
    return _around(driver, DeleteMessages("t", driver.ref(), 9, 0, EVERY, operation_id=b"o" * 16))


def take_forwarded(driver: Driver) -> Plan:
    make_queues(driver)
    source = ForwardSource("uid-source", SubQueue.MAIN, 3, b"incarnation")
    carried = [Carried(None, None, None, None, 77, 0, 1)] * 2
    batch = Batch([b"3", b"4"], carried=carried)
    target = TakeForwarded("t", driver.ref(), source, 1, 1, [3, 4], batch)
    # A message that fails is isolated: the rest of the frame is stored.
    return replace(_around(driver, target), comparable=False)


def take_forwarded_badly(driver: Driver) -> Plan:
    plan = take_forwarded(driver)
    plan.target.batch.message_ids = ["x" * 200, "y"]
    return plan


def spread(driver: Driver) -> None:
    """Make a queue that forwards to one in several partitions."""
    driver.partition.state.forward_link = "link"
    target = Entity("target", "t", 1, Origin.CLIENT, QueueDescription(), 2, 0, 0, 0)
    source = Entity(
        "source", "s", 5, Origin.CLIENT, QueueDescription(forward_to="target"), 1, 0, 0, 0
    )
    driver.run(ApplyEntity("t", [target, source]))


def forward_spread(driver: Driver) -> Plan:
    spread(driver)
    driver.run(append(driver, *[b"m"] * 4, name="source", partition_keys=["a", "b", "c", "d"]))
    return Plan()


def forward_outcome(driver: Driver) -> Plan:
    plan = forward_spread(driver)
    [frame] = [value for value in driver.sweep() if isinstance(value, Outgoing)]
    from bendybus.partition_server.state.answers import ForwardedTaken

    plan.target = ForwardOutcome(
        "t",
        frame.slot,
        frame.boot,
        frame.sequence,
        frame.partition,
        ForwardedTaken(len(frame.counters), {}),
    )
    return plan


def publish(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    ref = driver.ref("news")

    def frame(n: int, *bodies: bytes, **columns: Any) -> Append:
        return Append(
            "t",
            ref,
            Batch(list(bodies), **columns),
            [1] * len(bodies),
            producer_id=b"p" * 16,
            producer_sequence=n,
        )

    return Plan(
        frame(1, b"x" * 3_000, b"y", scheduled_ms=[0, driver.wall_ms + 9_000]),
        [frame(2, b"before")],
        [frame(3, b"after")],
    )


def publish_transaction(driver: Driver) -> Plan:
    plan = publish(driver)
    ref = driver.ref("news")
    parts = [Append(None, ref, Batch([b"x" * 3_000, b"y"], partition_keys=["k", "k"]))]
    plan.target = Transact("t", ref, b"transaction-0001", parts)
    return plan


def management_create(driver: Driver) -> Plan:
    make_queues(driver)
    return Plan(CommitEntity("t", EntityAction.CREATE, "new", Origin.CLIENT, {}, uid="uid-new"))


def management_update(driver: Driver) -> Plan:
    make_queues(driver)
    return Plan(
        CommitEntity("t", EntityAction.UPDATE, "orders", Origin.CLIENT, {"max_delivery_count": 7})
    )


def management_delete(driver: Driver) -> Plan:
    make_queues(driver)
    return Plan(CommitEntity("t", EntityAction.DELETE, "orders", Origin.CLIENT))


def management_rules(driver: Driver) -> Plan:
    topic_changes.make_news(driver)
    return Plan(
        CommitEntity("t", EntityAction.DELETE, "news", Origin.CLIENT, kind=EntityKind.TOPIC)
    )


def apply_entities(driver: Driver) -> Plan:
    make_queues(driver)
    entity = Entity("copied", "c", 99, Origin.CLIENT, QueueDescription(), 1, 0, 0, 0)
    return Plan(ApplyEntity("t", [entity]))


COMMANDS: dict[str, Callable[[Driver], Plan]] = {
    each.__name__: each
    for each in (
        send, send_detecting, send_repeat, settle_expired, deliver_reserved, deliver_delete,
        release,
        stream_ended, ask, withdraw, peek, counts, receive_deferred, delete_deferred, cancel,
        delete_messages,
        take_forwarded,
        take_forwarded_badly, forward_outcome, publish, publish_transaction,
        management_create, management_update, management_delete, management_rules, apply_entities,
    )
} | {
    f"settle_{d.name.lower()}": _settling(d) for d in D
} | {"abandon_delayed": _settling(D.ABANDON, delay_ms=60_000)}  # fmt: skip
