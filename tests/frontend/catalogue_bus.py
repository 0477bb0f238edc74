"""A bus in memory for changes of the catalogue: real rules, links that fail and are slow."""

import asyncio
import random
from typing import Any

from bendybus.domain import errors
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams.unary_calls import Commit
from bendybus.internal.v1 import entity_pb2
from bendybus.partition_server.state.answers import CatalogueChanged, Failed
from bendybus.partition_server.state.commands import ApplyEntity, CommitEntity, Watch
from bendybus.wire import catalogue, entities
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore

PARTITIONS = 4


class Partition:
    """A partition with the real rules, as every front end has a link to it."""

    def __init__(self, index: int, chooser: random.Random) -> None:
        self.index = index
        self.driver = Driver(MemoryStore(fingerprint(index, count=PARTITIONS)))
        self.driver.run(Watch("w"))
        self.fails = 0.0
        # Names of which it takes no entry.
        self.refuses: set[str] = set()
        # While this is not set, copies are on their way.
        self.reached = asyncio.Event()
        self.reached.set()
        self.chooser = chooser
        self.watches: list[asyncio.Queue[CatalogueChanged]] = []
        # Every entry that it took, in order.
        self.taken: list[Entity] = []

    def run(self, command: Any) -> Any:
        """Run a command, tell watchers, return the answer or raise what refuses it."""
        answer = None
        for value in self.driver.run(command):
            if isinstance(value, Failed):
                raise value.error
            if isinstance(value, CatalogueChanged):
                self.taken += value.entities
                for watch in self.watches:
                    watch.put_nowait(value)
            else:
                answer = value
        return answer

    def entry(self, key: str) -> Entity | None:
        """Return what it knows of a name."""
        return self.driver.partition.state.catalogue.by_key(key)


class Link:
    """What a front end knows as the upstream of a partition."""

    available, pulls = True, False

    def __init__(self, partition: Partition) -> None:
        self.partition = partition.index
        self.catalogue_calls = self
        self._at = partition

    def conditions(self) -> list[str]:
        """Return why it cannot be asked."""
        return []

    async def _travel(self, *, may_fail: bool) -> None:
        for _ in range(self._at.chooser.randrange(4)):
            await asyncio.sleep(0)
        if may_fail and self._at.chooser.random() < self._at.fails:
            raise errors.PartitionUnavailable("lost on its way.")

    async def CommitEntity(self, request: Any, timeout: float) -> Any:
        """Commit, as the registrar."""
        await self._travel(may_fail=False)
        kind, name, changes = catalogue.commit_asked(request)
        made = self._at.run(
            CommitEntity(
                "t",
                EntityAction(request.action),
                name,
                entities.origin_from_proto(request.origin),
                changes,
                request.uid,
                request.if_generation,
                request.manifest_uid,
                kind,
                catalogue.rule_change(request),
            )
        )
        await self._travel(may_fail=False)
        return catalogue.commit_response(made)

    async def ApplyEntity(self, request: Any, timeout: float) -> Any:
        """Copy entries."""
        await self._travel(may_fail=True)
        await self._at.reached.wait()
        entries = catalogue.applied(request)
        if any(each.key in self._at.refuses for each in entries):
            raise errors.InvalidArgument("rules", "are those of a later version.")
        self._at.run(ApplyEntity("t", entries))
        await self._travel(may_fail=True)
        return entity_pb2.ApplyEntityResponse()


class Bus:
    """Partitions and front ends."""

    def __init__(self, seed: int, front_ends: int = 2) -> None:
        self.chooser = random.Random(seed)
        self.partitions = [Partition(index, self.chooser) for index in range(PARTITIONS)]
        self.front_ends = [FrontEnd(Settings(partitions={})) for _ in range(front_ends)]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Bus":
        for front_end in self.front_ends:
            for partition in self.partitions:
                front_end.upstreams[partition.index] = Link(partition)  # type: ignore[assignment]
                watch: asyncio.Queue[CatalogueChanged] = asyncio.Queue()
                partition.watches.append(watch)
                own = fingerprint(partition.index, count=PARTITIONS)
                front_end.catalogue(partition.index, own, [], snapshot=True)
                self._tasks.append(
                    asyncio.create_task(self._watch(front_end, partition.index, watch))
                )
            self._tasks.append(asyncio.create_task(front_end.copies.run()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch(
        self, front_end: FrontEnd, index: int, watch: "asyncio.Queue[CatalogueChanged]"
    ) -> None:
        own = fingerprint(index, count=PARTITIONS)
        while True:
            changed = await watch.get()
            for _ in range(self.chooser.randrange(12)):
                await asyncio.sleep(0)
            front_end.catalogue(index, own, list(changed.entities), snapshot=False)

    def check(self) -> None:
        """A partition with a topic's generation has each earlier change of its subscriptions."""
        history = self.partitions[0].taken
        for partition in self.partitions:
            for name in ("t0", "t1"):
                topic = partition.entry(name)
                if topic is None:
                    continue
                newest: dict[str, int] = {}
                for entry in history:
                    if entry.topic_key == name and entry.generation < topic.generation:
                        newest[entry.key] = max(entry.generation, newest.get(entry.key, 0))
                newest.pop(name, None)
                for key, generation in newest.items():
                    has = partition.entry(key)
                    assert has is not None, (partition.index, topic.generation, key)
                    assert has.generation >= generation, (partition.index, topic.generation, key)


async def create(bus: Bus, kind: EntityKind, name: str) -> None:
    """Create an entity through the first front end."""
    await bus.front_ends[0].manager.change(Commit(EntityAction.CREATE, name, kind=kind))
