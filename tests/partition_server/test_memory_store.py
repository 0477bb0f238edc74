"""The store without a file returns what the real one returns, in the same order."""

from bendybus.domain.entity import Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, CommitEntity
from tests.partition_server.driver import Driver


def test_entities_come_by_generation_and_slots_by_number(driver: Driver) -> None:
    for name in ("first", "second"):
        driver.create(name)
    # Written in the other order.
    for name in ("second", "first"):
        driver.run(Append("t", driver.ref(name), Batch([b"x"])))
    changes = {"max_delivery_count": 3}
    driver.run(CommitEntity("t", EntityAction.UPDATE, "first", Origin.CLIENT, changes))

    opened = driver.store.open()

    assert [entity.name for entity in opened.entities] == ["second", "first"]
    assert [slot.slot for slot in opened.slots] == sorted(slot.slot for slot in opened.slots)
