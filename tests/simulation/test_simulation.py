"""Seeded runs of a whole bus with crashes, stalls, full disks and clocks that jump.

What must hold in every run: what was acknowledged is never lost; what was completed never comes
back; a keyless send gets through as long as one partition is there; messages of one key are in
one partition.
"""

from collections import Counter

import pytest

from bendybus.domain import partitioning
from bendybus.partition_server.store.records import COUNTER_MASK, State
from tests import sequence_numbers
from tests.simulation.bus import Bus
from tests.simulation.partitions import PARTITIONS
from tests.simulation.shared import SharedSends

SEEDS = range(40)


def storm(bus: Bus, steps: int = 400) -> SharedSends:
    """Send, receive, settle and break things for a while; return the lines of small sends."""
    receivers = [bus.add_receiver() for _ in range(3)]
    shared, sent = SharedSends(bus), 0
    for _ in range(steps):
        bus.run_until(bus.now + bus.random.randint(1, 60))
        match bus.random.randrange(22):
            case 0 | 1 | 2 | 3:
                count = bus.random.randint(1, 4)
                bus.send([f"keyless-{sent + i}" for i in range(count)])
                sent += count
            case 4:
                key = f"key{bus.random.randrange(6)}"
                bus.send([f"{key}-{sent}"], key)
                sent += 1
            case 5:
                sent += send_mixed(bus, sent)
            case 6 | 7 | 8:
                bus.receive(bus.random.choice(receivers), bus.random.choice([1, 3, 200]))
            case 9 | 10 | 11:
                bus.settle_some(bus.random.randint(1, 5))
            case 12:
                break_something(bus)
            case 13:
                bus.end_streams(bus.random.randrange(PARTITIONS))
            case 14:
                bus.grant(bus.random.choice(receivers), bus.random.choice([1, 3, 200]))
            case 15:
                bus.drain()
            case 16 | 17 | 18:
                sent += send_by_many(bus, shared, sent)
            case _:
                bus.tick()
    calm(bus)
    assert not shared.waits
    return shared


def send_by_many(bus: Bus, shared: SharedSends, sent: int) -> int:
    """Let many clients send a message each."""
    count = bus.random.choice([1, 5, 40])
    for i in range(count):
        key = bus.random.choice(["", "", f"key{bus.random.randrange(6)}"])
        shared.send(f"client{i}", f"{key or 'keyless'}-{sent + i}", key)
    return count


def send_mixed(bus: Bus, sent: int) -> int:
    """Send one frame of several tasks: with keys and without, single messages and batches."""
    units, count = [], bus.random.choice([2, 3, 10, 150])
    for i in range(count):
        size = bus.random.choice([1, 1, 1, 3])
        key = bus.random.choice(["", f"key{bus.random.randrange(6)}"])
        units.append(([f"{key or 'keyless'}-{sent + i}.{n}" for n in range(size)], key))
    bus.send_units(units)
    return count


def break_something(bus: Bus) -> None:
    """Break one partition in some way; never all of them."""
    index = bus.random.randrange(PARTITIONS)
    match bus.random.randrange(4):
        case 0:
            if len(bus.down) < PARTITIONS - 1:
                bus.crash(index)
                bus.after(bus.random.randint(50, 4_000), lambda: bus.restart(index))
        case 1:
            bus.stall(index, bus.random.randint(100, 6_000))
        case 2:
            bus.fill_disk(index)
        case _:
            bus.jump_clock(index, bus.random.choice([-7_200_000, 7_200_000, 30_000]))


def calm(bus: Bus, steps: int = 900) -> None:
    """Mend everything and let all that is under way end."""
    for _ in range(steps):
        bus.run_until(bus.now + 50)
        bus.tick()
        for index in range(PARTITIONS):
            bus.restart(index)


def wrong_figures(bus: Bus) -> list[str]:
    """Return where figures, in memory or stored, are not those of the stored messages."""
    wrong = []
    for node in bus.nodes:
        assert node.rules is not None
        kept = {queue.slot: queue.state for queue in node.rules.state.queues}
        for slot in node.store.open().slots:
            rows = node.store.summaries(slot.slot, 0, COUNTER_MASK, 1 << 30)
            states = Counter(row.state for row in rows)
            size_bytes = sum(row.size_bytes for row in rows)
            found = (*(states[state] for state in State), size_bytes)
            for figures in (slot, kept[slot.slot]):
                known = (figures.active, figures.deferred, figures.scheduled, figures.size_bytes)
                if known != found:
                    wrong.append(f"partition {node.index}, slot {slot.slot}: {known}, not {found}")
    return wrong


def elsewhere(bus: Bus) -> list[str]:
    """Return the messages with a key that are not in the partition of their key."""
    return [
        payload
        for payload, number in bus.acknowledged.items()
        if payload.startswith("key") and not payload.startswith("keyless")
        if sequence_numbers.partition_of(number)
        != partitioning.partition_of(payload.split("-")[0], PARTITIONS)
    ]


def drain(bus: Bus) -> None:
    """Receive and complete until nothing is left."""
    link = bus.add_receiver()
    for _ in range(3_000):
        bus.receive(link, 50)
        bus.run_until(bus.now + 20)
        bus.settle_some(1_000)
        bus.tick()
        if not bus.stored():
            return


@pytest.mark.requirement("R02")
@pytest.mark.requirement("R10")
@pytest.mark.requirement("R20")
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_nothing_completed_returns(seed: int) -> None:
    bus = Bus(seed)

    shared = storm(bus)

    assert max(shared.batches) > 5
    assert max(bus.sends.parts) > 1
    held = bus.stored()
    payloads = set(held.values())
    lost = [p for p in bus.acknowledged if p not in payloads and p not in bus.delivered]
    assert not lost
    assert not bus.completed_numbers & held.keys()
    assert not bus.returned_after_complete
    assert len(bus.board) == 0
    assert not wrong_figures(bus)
    # What has a key is stored exactly once, however often the send was repeated.
    keyed = [p for p in held.values() if not p.startswith("keyless")]
    assert len(keyed) == len(set(keyed))
    assert not bus.completed & set(keyed)
    # What has none may be stored twice only where the sender was told so.
    for number, payload in held.items():
        bus.numbers.setdefault(payload, set()).add(number)
    doubled = {payload for payload, numbers in bus.numbers.items() if len(numbers) > 1}
    assert doubled <= bus.possible_duplicates | bus.unknown
    # A definite no means no.
    assert not bus.failed & (payloads | bus.delivered.keys())
    assert not elsewhere(bus)


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_credit_is_never_exceeded_and_always_ends_when_it_is_drained(seed: int) -> None:
    bus = Bus(seed + 4_000)

    storm(bus)
    # Each lapsed, was used up, or was drained at its deadline.
    assert not [credit for credit in bus.credit.open() if credit.lapses]
    bus.grant(bus.links[0], 10_000)
    while bus.credit.any_that_stays() is not None:
        bus.drain()
        calm(bus, steps=20)

    assert bus.credit.drained
    assert not any(link.waiting() for link in bus.links)


@pytest.mark.requirement("R30")
@pytest.mark.parametrize("seed", SEEDS[:10])
def test_keyless_sends_get_through_while_one_partition_is_there(seed: int) -> None:
    bus = Bus(seed + 2_000, silent_crashes=0)
    for index in range(PARTITIONS - 1):
        bus.crash(index)
    bus.run_until(bus.now + 100)

    for n in range(30):
        bus.send([f"keyless-{n}"])
        bus.run_until(bus.now + 50)
        bus.tick()

    assert len(bus.acknowledged) == 30
    assert {sequence_numbers.partition_of(n) for n in bus.acknowledged.values()} == {PARTITIONS - 1}


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_after_the_storm_everything_can_be_received_once(seed: int) -> None:
    bus = Bus(seed + 3_000)
    storm(bus, steps=200)

    drain(bus)

    assert not bus.stored()
    assert set(bus.acknowledged) <= set(bus.delivered)


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = Bus(7), Bus(7)
    storm(first, steps=150)
    storm(second, steps=150)

    assert first.acknowledged == second.acknowledged
    assert first.delivered == second.delivered


@pytest.mark.requirement("R29")
def test_without_trouble_every_message_is_stored_and_delivered_exactly_once() -> None:
    bus = Bus(1, silent_crashes=0)
    bus.abandoned = 0
    for n in range(64):
        bus.send([f"m{n}"])
        bus.run_until(bus.now + 10)

    per_partition = [
        sum(sequence_numbers.partition_of(n) == i for n in bus.acknowledged.values())
        for i in range(PARTITIONS)
    ]
    drain(bus)

    assert per_partition == [16] * PARTITIONS
    assert set(bus.delivered.values()) == {1}
