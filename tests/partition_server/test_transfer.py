"""Transactions that send to other entities, through the transfer queue of the one they settle."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bendybus.domain import errors, limits
from bendybus.domain.disposition import Disposition
from bendybus.domain.entity import Entity, Origin
from bendybus.domain.entity_settings import EntityStatus, QueueDescription
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.answers import Failed, Transacted
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import (
    ApplyEntity,
    Settle,
    Transact,
    Transfer,
)
from bendybus.partition_server.store.records import (
    Changes,
    ClockMark,
    ForwardedFrame,
    ForwardSource,
)
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.forwarding_driver import bodies, held, locked, send
from tests.partition_server.partition_pair import NAMES, Pair, fill, give_room
from tests.partition_server.transacting import ID

GONE_MS = 2 * limits.FORWARD_REFUSED_MS


def entity(name: str, partitions: int = 2, generation: int = 5, **described: Any) -> Entity:
    """Return a queue of both partitions, or of the first one."""
    description = QueueDescription(**described)
    return Entity(name, f"uid-{name}", generation, Origin.CLIENT, description, partitions, 0, 0, 0)


class Sending(Pair):
    """Two partitions: transactions settle messages of `orders`, in the first one."""

    def __init__(self, *destinations: Entity) -> None:
        super().__init__()
        self.put(entity("orders", 1), *(destinations or (entity("invoices"),)))

    def put(self, *entities: Entity) -> None:
        for driver in self.drivers:
            driver.run(ApplyEntity("t", list(entities)))

    def transact(self, *parts: Any, id_: bytes = ID, **options: Any) -> Any:
        """Run a transaction of `orders`; raise what refuses it, before its parts or in one."""
        ref = self.source.ref("orders")
        answers = self.source.run(Transact("t", ref, id_, parts, **options))
        [value] = [each for each in answers if isinstance(each, Transacted | Failed)]
        if value.error is not None:
            raise value.error
        return value

    def received(self, *payloads: bytes) -> Settle:
        """Send and receive messages of `orders`; return the part that completes them."""
        send(self.source, "orders", *payloads)
        tokens = locked(self.source, "orders", len(payloads))
        return Settle(None, 0, Disposition.COMPLETE, tokens, entity_uid="uid-orders")

    def to(self, name: str, *payloads: bytes, **columns: Any) -> Transfer:
        """Return a part that sends to another entity."""
        return Transfer(self.source.ref(name), Batch(list(payloads), **columns))

    def at(self, name: str) -> list[bytes]:
        """Return what both partitions have of a queue, the first one alone of a plain queue."""
        found = self.source.partition.state.catalogue.by_key(name)
        assert found is not None
        return [body for n in found.partitions() for body in bodies(self.drivers[n], name)]

    def size_bytes(self) -> int:
        """Return what counts to the quota of `orders`."""
        return self.source.counts_of("orders").size_bytes


@pytest.mark.requirement("R235")
def test_what_is_sent_to_another_queue_is_one_commit_with_the_settlement() -> None:
    pair = Sending()
    part = pair.received(b"order")
    ref = pair.source.ref("orders")
    command = Transact("t", ref, ID, [part, pair.to("invoices", b"invoice", partition_keys=["k"])])

    stage = pair.source.partition.decide([command], pair.source.now)
    assert len(stage.changes.deletes) == len(stage.changes.inserts) == 1
    pair.source.partition.abandon(stage, errors.PartitionUnavailable("full"), pair.source.now)
    pair.source.sweep()
    assert (bodies(pair.source, "orders"), pair.at("invoices")) == ([b"order"], [])

    done = pair.transact(*command.parts, age_ms=1)
    assert [list(each.numbers) for each in done.parts] == [[], []]
    assert bodies(pair.source, "orders") == []
    assert pair.size_bytes() > 0
    pair.finish()
    assert pair.at("invoices") == [b"invoice"]
    assert pair.size_bytes() == 0
    [row] = [row for driver in pair.drivers for row in held(driver, "invoices")]
    assert row.hops == 1


@pytest.mark.requirement("R235")
def test_a_transaction_that_is_refused_sends_nothing_to_others() -> None:
    pair = Sending()
    part = pair.received(b"order")
    pair.source.run(part)

    with pytest.raises(errors.MessageLockLost):
        pair.transact(pair.to("invoices", b"invoice"), part)
    pair.finish()

    assert pair.at("invoices") == []
    assert pair.size_bytes() == 0


@pytest.mark.requirement("R236")
def test_the_key_decides_on_the_partition_at_the_destination() -> None:
    pair = Sending()
    pair.transact(pair.to("invoices", *[n.encode() for n in NAMES], partition_keys=NAMES))
    pair.finish()

    target = entity("invoices")
    for index, driver in enumerate(pair.drivers):
        wanted = [name.encode() for name in NAMES if target.partition_of(name) == index]
        assert bodies(driver, "invoices") == wanted


@pytest.mark.requirement("R236")
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("when", ["sent", "stored", "answered"])
def test_each_message_arrives_once_whichever_side_dies(victim: int, when: str) -> None:
    pair = Sending(entity("invoices"), entity("others"))
    numbers = [str(n).encode() for n in range(10)]
    for n, body in enumerate(numbers):
        parts = [pair.to(name, body, partition_keys=[NAMES[n]]) for name in ("invoices", "others")]
        pair.transact(*parts, id_=b"%016d" % n)
    frames = pair.frames()
    # One for each destination: their numbers are the same, and their names are not.
    assert len(frames) == 2
    assert frames[0].counters[0] == frames[1].counters[0]
    assert frames[0].source.name() != frames[1].source.name()

    for frame in frames:
        value = None if when == "sent" else pair.deliver(frame)
        if when == "answered":
            pair.answer(frame, value)
    pair.restart(victim)
    for frame in frames if victim == 1 and when != "answered" else []:
        pair.answer(frame, None)
    pair.finish()

    assert sorted(pair.at("invoices")) == sorted(pair.at("others")) == numbers
    assert pair.size_bytes() == 0


@pytest.mark.requirement("R236")
def test_a_restart_before_the_transfer_loses_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, fingerprint(0, count=1))
    driver = Driver(store)
    driver.run(ApplyEntity("t", [entity("orders", 1), entity("invoices", 1)]))
    part = Transfer(driver.ref("invoices"), Batch([b"invoice"], time_to_live_ms=[60_000]))
    driver.run(Transact("t", driver.ref("orders"), ID, [part]))

    driver.restart()
    driver.sweep()

    [row] = held(driver, "invoices")
    assert (row.payload, row.time_to_live_ms, row.hops) == (b"invoice", 60_000, 1)
    store.close()


@pytest.mark.requirement("R236")
def test_life_and_schedule_are_those_of_the_sender() -> None:
    described = {"default_message_time_to_live_ms": 60_000}
    pair = Sending(entity("invoices", 1, **described))
    due_ms = pair.source.wall_ms + 30_000
    pair.transact(
        pair.to(
            "invoices", b"short", b"later", b"plain",
            time_to_live_ms=[40_000, 40_000, 0], scheduled_ms=[0, due_ms, 0],
        )
    )  # fmt: skip
    pair.source.wall_ms += 10_000
    pair.source.sweep()

    rows = {row.payload: row for row in held(pair.source, "invoices")}
    assert (rows[b"short"].time_to_live_ms, rows[b"short"].state) == (30_000, 0)
    assert (rows[b"later"].scheduled_ms, rows[b"later"].state) == (due_ms, 2)
    assert rows[b"later"].time_to_live_ms == 40_000
    assert rows[b"plain"].time_to_live_ms == 60_000


@pytest.mark.requirement("R237")
@pytest.mark.parametrize("why", ["missing", "disabled", "full"])
def test_what_a_destination_does_not_take_becomes_a_transfer_dead_letter(why: str) -> None:
    pair = Sending(entity("invoices", 1), entity("others", 1))
    pair.transact(pair.to("invoices", b"invoice"), pair.to("others", b"other"))
    if why == "missing":
        pair.put(replace(entity("invoices", 1, 6), deleted=True))
    elif why == "disabled":
        pair.put(entity("invoices", 1, 6, status=EntityStatus.DISABLED))
    else:
        fill(pair.source, "invoices")
    pair.source.sweep()
    # It delays only what is for it, and is counted.
    assert pair.at("others") == [b"other"]
    counts = pair.source.counts_of("orders")
    assert (counts.transfer, counts.active, counts.messages) == (1, 0, 1)
    dead = SubQueue.TRANSFER_DEAD_LETTER
    assert bodies(pair.source, "orders", dead) == []

    pair.source.advance(GONE_MS)
    pair.source.advance(GONE_MS)

    [row] = held(pair.source, "orders", dead)
    reasons = {
        "missing": "EntityNotFound",
        "disabled": "EntityDisabled",
        "full": "QuotaExceeded",
    }
    assert (row.payload, row.dead_letter_reason) == (b"invoice", reasons[why])
    assert "'invoices'" in (row.dead_letter_error_description or "")
    if why == "full":
        give_room(pair.source, "invoices")


@pytest.mark.requirement("R237")
def test_what_waits_counts_to_the_quota_of_its_queue_and_keeps_it_in_use() -> None:
    pair = Sending()
    pair.source.partition.state.forward_link = None
    pair.transact(pair.to("invoices", b"x" * 1_000, partition_keys=["k"]))
    pair.source.advance(10_000)

    counts = pair.source.counts_of("orders")
    assert counts.size_bytes > 1_000
    assert (counts.active, counts.idle_ms) == (0, 0)
    fill(pair.source, "orders")
    with pytest.raises(errors.QuotaExceeded, match="queue 'orders': partition 0 is full"):
        pair.transact(pair.to("invoices", b"more"), id_=b"full".ljust(16))
    give_room(pair.source, "orders")


@pytest.mark.requirement("R238")
@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"message_ids": ["m" * 129]}, errors.BusError, "128"),
        ({"session_ids": ["a"], "partition_keys": ["b"]}, errors.InvalidOperation, "differs"),
        ({"time_to_live_ms": [1, 2]}, errors.InvalidArgument, "2 entries for 1"),
    ],
)
def test_a_message_that_its_destination_never_takes_refuses_the_transaction(
    columns: dict[str, Any], error: type[errors.BusError], says: str
) -> None:
    pair = Sending()
    part = pair.received(b"order")
    if "session_ids" in columns:
        columns = {**columns, "session_present": [True]}

    with pytest.raises(error, match=says):
        pair.transact(part, pair.to("invoices", b"x", **columns))

    assert bodies(pair.source, "orders") == [b"order"]


@pytest.mark.requirement("R238")
def test_size_and_session_are_those_of_the_destination() -> None:
    pair = Sending(
        entity("small", max_message_size_in_kilobytes=1),
        entity("sessions", requires_session=True),
    )
    with pytest.raises(errors.MessageSizeExceeded, match="'small'"):
        pair.transact(pair.to("small", b"x" * 2_000))
    with pytest.raises(errors.InvalidOperation, match="SessionId was not set"):
        pair.transact(pair.to("sessions", b"x"), id_=b"2".ljust(16))
    assert pair.size_bytes() == 0


@pytest.mark.requirement("R238")
def test_a_destination_of_another_version_or_kind_is_refused_for_now() -> None:
    pair = Sending()
    old = pair.to("invoices", b"x")
    pair.put(entity("invoices", generation=6))
    with pytest.raises(errors.GenerationMismatch):
        pair.transact(old)
    # It is not remembered: with what is known by then, it is done.
    assert pair.transact(pair.to("invoices", b"x"), age_ms=1).error is None


@pytest.mark.requirement("R239")
def test_destinations_are_bounded_and_those_that_are_gone_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "TRANSFER_DESTINATIONS_MAX", 2)
    names = ["a", "b", "c"]
    pair = Sending(*[entity(name, 1) for name in names])
    for n, name in enumerate(names[:2]):
        pair.transact(pair.to(name, b"x"), id_=b"%016d" % n)
    with pytest.raises(errors.QuotaExceeded, match="to 2 other entities"):
        pair.transact(pair.to("c", b"x"), id_=b"refused".ljust(16))

    pair.finish()
    pair.put(replace(entity("a", 1, 6), deleted=True))
    pair.transact(pair.to("c", b"x"), id_=b"done".ljust(16))
    pair.finish()
    # The one that was made again is another one.
    again = replace(entity("b", 1, 8), uid="uid-b-again")
    pair.put(replace(entity("b", 1, 7), deleted=True))
    pair.put(again)
    pair.transact(pair.to("b", b"again"), id_=b"again".ljust(16))
    pair.restart(0)
    pair.finish()

    assert (pair.at("c"), pair.at("b")) == ([b"x"], [b"again"])
    assert pair.size_bytes() == 0


@pytest.mark.requirement("R239")
def test_a_destination_that_is_deleted_forgets_what_came_from_its_transfers() -> None:
    pair = Sending()
    pair.transact(pair.to("invoices", b"x", partition_keys=[_key_of(1)]))
    [frame] = pair.frames()
    pair.answer(frame, pair.deliver(frame))
    forwards = pair.drivers[1].store.forwards
    assert forwards.last(frame.source.name()) != (0, 0)

    pair.drivers[1].run(ApplyEntity("t", [replace(entity("invoices", 2, 6), deleted=True)]))

    assert forwards.last(frame.source.name()) == (0, 0)


def _key_of(partition: int) -> str:
    return next(name for name in NAMES if entity("invoices").partition_of(name) == partition)


@pytest.mark.requirement("R239")
@pytest.mark.parametrize("removed", ["uid-orders", "uid-invoices"])
def test_a_store_forgets_transfers_of_either_end_and_no_others(
    make_store: Any, removed: str
) -> None:
    store = make_store()
    store.open()
    sources = {
        name: ForwardSource("uid-orders", SubQueue.TRANSFER, 0, b"i" * 16, f"uid-{name}")
        for name in ("invoices", "others")
    }
    frames = [ForwardedFrame(each, True, 1, 1, [7], [], 0) for each in sources.values()]
    store.commit(Changes(forwarded=frames))

    store.commit(Changes(forward_sources_removed=[removed], seen=ClockMark(1, 1, "m")))

    left = {name for name, each in sources.items() if store.forwards.known(each.name(), [7]) == {7}}
    assert left == (set() if removed == "uid-orders" else {"others"})
