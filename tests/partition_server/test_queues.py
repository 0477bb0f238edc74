"""The queues of a partition: by slot, and by entity and sub-queue."""

from dataclasses import replace

from bendybus.domain.entity import Entity, Fingerprint, Origin
from bendybus.domain.entity_settings import QueueDescription
from bendybus.domain.limits import Tier
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.state.catalogue import Catalogue
from bendybus.partition_server.state.journal import Journal
from bendybus.partition_server.state.queues import Queues
from bendybus.partition_server.state.ready_set import WindowMemory
from bendybus.partition_server.store.records import SLOT_MAX, SlotState

FINGERPRINT = Fingerprint("n", "u", Tier.PREMIUM, 4, 0)


def entity(name: str) -> Entity:
    """Return the entry of a queue."""
    return Entity(name, f"uid-{name}", 1, Origin.CLIENT, QueueDescription(), 4, 0, 0, 0)


def opened(slots: list[SlotState], *names: str) -> Queues:
    """Return the queues of a file with these slots and entities."""
    found = Queues(0, Journal(), WindowMemory())
    found.open(slots, Catalogue(FINGERPRINT, map(entity, names)), 0)
    return found


def slot_of(found: Queues, name: str, sub_queue: SubQueue) -> int:
    """Return the slot of a queue."""
    queue = found.of(f"uid-{name}", sub_queue)
    assert queue is not None
    return queue.slot


def test_a_slot_is_what_the_file_says_and_not_what_its_number_is() -> None:
    slots = [
        SlotState(5, "uid-a", SubQueue.MAIN),
        SlotState(2, "uid-a", SubQueue.DEAD_LETTER),
    ]

    found = opened(slots, "a")

    assert slot_of(found, "a", SubQueue.MAIN) == 5
    assert slot_of(found, "a", SubQueue.DEAD_LETTER) == 2


def test_a_queue_without_messages_gets_a_slot_that_no_other_has() -> None:
    # Only main queues ever had a message.
    slots = [SlotState(0, "uid-a"), SlotState(2, "uid-b")]

    found = opened(slots, "a", "b", "c")

    taken = [queue.slot for queue in found]
    assert len(set(taken)) == 6
    assert slot_of(found, "a", SubQueue.MAIN) == 0
    assert slot_of(found, "b", SubQueue.MAIN) == 2


def test_the_slot_of_a_deleted_entity_is_dropped_and_not_given_again() -> None:
    slots = [SlotState(0, "uid-gone"), SlotState(1, "uid-gone", SubQueue.DEAD_LETTER)]

    found = opened(slots, "a")

    assert set(found.dropped) == {0, 1}
    assert {queue.slot for queue in found} == {2, 3}


def test_an_entity_of_other_partitions_has_no_queue_here() -> None:
    elsewhere = replace(entity("a"), partition_count=1, home_partition=3)
    found = Queues(0, Journal(), WindowMemory())

    found.ensure(elsewhere, 0)

    assert found.of("uid-a", SubQueue.MAIN) is None
    assert not found.has("uid-a")
    assert not found.uids_after("", 1)


def test_when_all_numbers_were_used_a_free_one_is_found() -> None:
    found = opened([SlotState(SLOT_MAX, "uid-a")], "a")

    found.ensure(entity("b"), 0)

    assert slot_of(found, "b", SubQueue.MAIN) < SLOT_MAX
    assert len({queue.slot for queue in found}) == 4
