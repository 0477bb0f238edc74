"""A message that meets a bug at its destination: it is set aside, and the others go on."""

from typing import Any

import pytest

from bendybus.domain import limits
from bendybus.domain.entity_settings import EntityStatus
from bendybus.domain.lifecycle import EntityAction
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import send as send_rules
from bendybus.partition_server.state.answers import Standstill
from tests.partition_server.catalogue_changes import commit
from tests.partition_server.driver import Driver
from tests.partition_server.forwarding_driver import bodies, held, send
from tests.partition_server.partition_pair import NAMES, Pair
from tests.partition_server.test_forward_status import forwarding_of
from tests.partition_server.test_transfer import entity

WAIT_S = limits.FORWARD_REFUSED_MS // 1_000
POISON = b"poison"
ASIDE = SubQueue.TRANSFER_DEAD_LETTER


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the rule of sending raise for messages that are called poison, at destinations."""
    work = send_rules.Appender._append

    def broken(self: Any, batch: Any, start: int, end: int) -> None:
        work(self, batch, start, end)
        if batch.carried and any(b.startswith(POISON) for b in batch.payloads[start:end]):
            raise ZeroDivisionError

    monkeypatch.setattr(send_rules.Appender, "_append", broken)
    return monkeypatch


@pytest.mark.requirement("R270")
@pytest.mark.parametrize("detects", [False, True])
def test_within_a_partition_what_is_before_goes_on_at_once_and_the_rest_after_a_minute(
    faulty: Driver, poison: pytest.MonkeyPatch, detects: bool
) -> None:
    faulty.create("audit", requires_duplicate_detection=detects)
    faulty.create("orders", forward_to="audit", requires_duplicate_detection=detects)
    numbers = [str(n).encode() for n in range(20)]
    send(faulty, "orders", *numbers, POISON, b"last", message_ids=[f"m{n}" for n in range(22)])
    faulty.sweep()

    assert bodies(faulty, "audit") == numbers
    assert bodies(faulty, "orders") == [POISON, b"last"]
    faulty.advance(2_000)
    assert forwarding_of(faulty, "orders").standstills == [Standstill(None, "INTERNAL", 2_000)]

    for _ in range(WAIT_S):
        faulty.advance(1_000)

    assert bodies(faulty, "audit") == [*numbers, b"last"]
    [row] = held(faulty, "orders", ASIDE)
    assert (row.payload, row.dead_letter_reason) == (POISON, "InternalError")
    assert "'audit'" in (row.dead_letter_error_description or "")
    assert faulty.counts_of("orders").active == 0
    assert forwarding_of(faulty, "orders").standstills == []
    # Each try is counted as a bug.
    assert 10 < len(faulty.partition.state.faults.take()) < WAIT_S


@pytest.mark.requirement("R270")
def test_what_is_mended_in_time_goes_on(faulty: Driver, poison: pytest.MonkeyPatch) -> None:
    faulty.create("audit")
    faulty.create("orders", forward_to="audit")
    send(faulty, "orders", POISON, b"last")
    faulty.advance(30_000)
    assert bodies(faulty, "audit") == []

    poison.undo()
    faulty.advance(30_000)

    assert bodies(faulty, "audit") == [POISON, b"last"]
    assert bodies(faulty, "orders", ASIDE) == []


@pytest.mark.requirement("R270")
@pytest.mark.parametrize("keyed", [True, False])
def test_across_partitions_other_lanes_and_what_is_before_go_on(
    poison: pytest.MonkeyPatch, keyed: bool
) -> None:
    pair = Pair()
    for driver in pair.drivers:
        driver.expects_faults = True
    poisonous = next(n for n in NAMES if entity("target").partition_of(n) == 1)
    keys = [*NAMES, poisonous, *NAMES] if keyed else []
    payloads = [f"{n}" for n in NAMES], [f"{n} again" for n in NAMES]
    sent = [n.encode() for n in payloads[0]], [n.encode() for n in payloads[1]]
    send(pair.source, "source", *sent[0], POISON, *sent[1], partition_keys=keys)
    pair.finish()

    here = [name for name in payloads[1] if name.split()[0] not in _at(1)] if keyed else []
    assert sorted(pair.stored()) == sorted([*payloads[0], *here])
    [still] = forwarding_of(pair.source, "source").standstills
    assert (still.partition, still.reason) == (int(keyed), "INTERNAL")

    for _ in range(4):
        pair.finish()

    assert sorted(pair.stored()) == sorted([*payloads[0], *payloads[1]])
    [row] = held(pair.source, "source", ASIDE)
    assert (row.payload, row.dead_letter_reason) == (POISON, "InternalError")
    assert pair.source.counts_of("source").active == 0
    for partition in (0, 1):
        before = [n for n in NAMES if n in _at(partition)] if keyed else []
        stored = [b.decode() for b in bodies(pair.drivers[partition], "target")]
        assert not keyed or stored == [*before, *(f"{n} again" for n in before)]


def _at(partition: int) -> set[str]:
    return {name for name in NAMES if entity("target").partition_of(name) == partition}


@pytest.mark.requirement("R270")
def test_a_refusal_of_the_destination_begins_its_own_minute(
    faulty: Driver, poison: pytest.MonkeyPatch
) -> None:
    faulty.create("audit")
    faulty.create("orders", forward_to="audit")
    send(faulty, "orders", POISON)
    faulty.sweep()
    faulty.advance(50_000)
    commit(faulty, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.DISABLED})
    faulty.advance(20_000)
    faulty.advance(20_000)
    commit(faulty, EntityAction.UPDATE, "audit", changes={"status": EntityStatus.ACTIVE})
    faulty.advance(2_000)

    assert bodies(faulty, "orders") == [POISON]


@pytest.mark.requirement("R270")
def test_a_partition_where_a_message_met_a_bug_is_tried_with_that_one_alone(
    poison: pytest.MonkeyPatch,
) -> None:
    pair = Pair()
    pair.drivers[1].expects_faults = True
    key = next(n for n in NAMES if n in _at(1))
    send(pair.source, "source", POISON, b"a", b"b", partition_keys=[key] * 3)
    sizes = []
    for _ in range(3):
        [frame] = pair.frames()
        sizes.append(len(frame.counters))
        pair.answer(frame, pair.deliver(frame))
        pair.source.mono_ms += 1_000
        if len(sizes) == 2:
            poison.undo()

    assert sizes == [3, 1, 1]
    [frame] = pair.frames()
    assert len(frame.counters) == 2
