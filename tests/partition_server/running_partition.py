"""A partition on its thread, and its answers in order."""

import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bendybus.domain.entity import Entity, Origin
from bendybus.domain.lifecycle import EntityAction
from bendybus.partition_server.broker.partition_thread import PartitionThread
from bendybus.partition_server.settings import Settings
from bendybus.partition_server.state.commands import (
    CommitEntity,
    EntityRef,
)
from bendybus.partition_server.state.stage import Answer
from bendybus.partition_server.store.sqlite_store import SqliteStore
from tests.partition_server.driver import fingerprint

WAIT_S = 10.0


class Runner:
    """A running partition, and its answers in order."""

    def __init__(self, folder: Path, *, free_space_min_bytes: int = 0) -> None:
        self.answers: queue.Queue[Answer] = queue.Queue()
        self.store = SqliteStore(folder, fingerprint(), reserve_bytes=1 << 20)
        settings = Settings(
            data=folder, namespace_uid="u", free_space_min_bytes=free_space_min_bytes
        )
        self.thread = PartitionThread(settings, self.store, self._take)
        self.thread.start()

    def _take(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self.answers.put(answer)

    def ask(self, command: Any) -> Any:
        """Submit a command and return the value of the next answer."""
        assert self.thread.submit(command)
        return self.next_answer().value

    def next_answer(self) -> Answer:
        """Return the next answer."""
        return self.answers.get(timeout=WAIT_S)

    def create(self) -> EntityRef:
        """Create the queue."""
        action = EntityAction.CREATE
        entity = self.ask(CommitEntity("t", action, "orders", Origin.CLIENT, uid="uid"))
        assert isinstance(entity, Entity)
        return EntityRef(entity.uid, entity.generation)


def failing_once(store: SqliteStore, error: Exception) -> Callable[[Any], None]:
    """Return a commit that fails the first time."""
    commit, errors_left = store.commit, [error]

    def fail(changes: Any) -> None:
        if errors_left:
            raise errors_left.pop()
        commit(changes)

    return fail
