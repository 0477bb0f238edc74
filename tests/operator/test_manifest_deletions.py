"""What manifests leave behind is dealt with, and a bus that refuses is not asked all the time."""

from typing import Any, cast

from bendybus.crds.manifest import DeletionPolicy
from bendybus.domain import errors
from bendybus.domain.directory import Directory
from bendybus.domain.errors import BusError
from bendybus.operator.bus.bus_link import BusLink
from bendybus.operator.controllers.entity_controller import EntityReconciler
from bendybus.operator.controllers.manifest_deletions import RETRY, ManifestDeletions
from bendybus.operator.decisions.manifests import ManifestCache
from bendybus.operator.decisions.plan import ManifestDeletion
from bendybus.operator.kubernetes.names import ObjectKey
from tests.operator.memory_api import MemoryKubernetesApi

BUS = ObjectKey("shop", "orders")
FULL = errors.QuotaExceeded("the disk is full.")
AWAY = errors.PartitionUnavailable("partition 0 does not answer.")


class Bus:
    """A bus without entities; it takes note of who left, or refuses as it is told."""

    def __init__(self) -> None:
        self.directory = Directory()
        self.asked: list[str] = []
        self.released: list[str] = []
        self.refusals: dict[str, BusError] = {}

    async def manifest_deleted(self, deletion: ManifestDeletion, link: BusLink) -> bool:
        self.asked.append(deletion.name)
        if deletion.name in self.refusals:
            raise self.refusals[deletion.name]
        self.released.append(deletion.name)
        return True


class Desk:
    """Departures that are carried out whenever they are due."""

    def __init__(self) -> None:
        self.bus = Bus()
        entities = cast(EntityReconciler, self.bus)
        self.deletions = ManifestDeletions(BUS, MemoryKubernetesApi(), ManifestCache(), entities)
        self.looks: list[float] = []

    def leaves(self, name: str) -> None:
        self.deletions.note(ManifestDeletion(f"uid-{name}", name, "shop", DeletionPolicy.RETAIN))

    async def run(self, until_s: float, now: float = 0.0) -> None:
        while (due := self.deletions.due) is not None and max(due, now) <= until_s:
            now = max(due, now)
            self.looks.append(now)
            await self.deletions.carry_out(cast(Any, self.bus), now)


async def test_what_left_is_released_once() -> None:
    desk = Desk()
    desk.leaves("a")

    await desk.run(until_s=100)

    assert desk.bus.asked == ["a"]
    assert desk.deletions.pending_names() == []


async def test_a_bus_that_refuses_is_asked_after_growing_pauses() -> None:
    desk = Desk()
    desk.bus.refusals["a"] = FULL
    desk.leaves("a")

    await desk.run(until_s=150)

    assert desk.looks == [0, 1, 3, 7, 15, 31, 61, 91, 121]
    assert desk.looks[-1] - desk.looks[-2] == RETRY.max_s
    assert desk.deletions.pending_names() == ["a"]


async def test_one_that_is_refused_holds_up_no_other() -> None:
    desk = Desk()
    desk.bus.refusals["a"] = FULL
    desk.leaves("a")
    desk.leaves("b")

    await desk.run(until_s=0)

    assert desk.bus.released == ["b"]
    assert desk.deletions.pending_names() == ["a"]


async def test_a_partition_that_is_away_is_asked_for_one_and_not_for_all() -> None:
    desk = Desk()
    desk.bus.refusals = {"a": AWAY, "b": AWAY}
    desk.leaves("a")
    desk.leaves("b")

    await desk.run(until_s=0)

    assert desk.bus.asked == ["a"]


async def test_news_end_the_pause() -> None:
    desk = Desk()
    desk.bus.refusals["a"] = AWAY
    desk.leaves("a")
    await desk.run(until_s=90)
    desk.bus.refusals.clear()

    desk.deletions.retry_now()
    await desk.run(until_s=92, now=92)

    assert desk.bus.released == ["a"]
    assert desk.deletions.due is None
