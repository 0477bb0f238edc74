"""What a front end knows of the entities: what the partitions told it. Pure.

Every partition's watch brings its whole catalogue, then changes. Generations are given by the
registrar alone, so the highest generation of a name is the truth, whoever brought it; a partition
with an older one lags and is brought up to date by any front end that notices.
"""

from collections.abc import Iterable

from bendybus.domain import entity as entities
from bendybus.domain import errors
from bendybus.domain.entity import Entity, Fingerprint


class Directory:
    """Entries by name, per partition and overall."""

    def __init__(self) -> None:
        self.fingerprint: Fingerprint | None = None
        self._best: dict[str, Entity] = {}
        self._by_uid: dict[str, Entity] = {}
        self._known: dict[int, dict[str, int]] = {}

    def update(
        self, partition: int, fingerprint: Fingerprint, entries: Iterable[Entity], *, snapshot: bool
    ) -> list[Entity]:
        """Take what a partition said; return the entries that are news to the front end."""
        if self.fingerprint is None:
            self.fingerprint = fingerprint
        generations = {} if snapshot else self._known.get(partition, {})
        self._known[partition] = generations
        news: list[Entity] = []
        for entry in entries:
            generations[entry.key] = max(entry.generation, generations.get(entry.key, 0))
            best = self._best.get(entry.key)
            if best is None or entry.generation > best.generation:
                if best is not None:
                    self._by_uid.pop(best.uid, None)
                if not entry.deleted:
                    self._by_uid[entry.uid] = entry
                self._best[entry.key] = entry
                news.append(entry)
        return news

    def forget(self, partition: int) -> None:
        """Note that a partition is out of reach: what it has now is unknown."""
        self._known.pop(partition, None)

    def lagging(self, partition: int) -> list[Entity]:
        """Return the entries that a reachable partition does not have yet, oldest first."""
        generations = self._known.get(partition)
        if generations is None:
            return []
        behind = [e for e in self._best.values() if generations.get(e.key, 0) < e.generation]
        return sorted(behind, key=lambda entry: entry.generation)

    def lookup(self, entity_path: str) -> tuple[Entity, bool]:
        """Return (entity, dead-letter sub-queue) of a path.

        Raises EntityNotFound; PartitionUnavailable while the registrar was never reached, since
        then nobody knows what there is.
        """
        name, dead_letter = entities.split_path(entity_path)
        entity = self._best.get(name.lower())
        if entity is not None and not entity.deleted:
            return entity, dead_letter
        if entity is None and not self._known:
            raise errors.PartitionUnavailable(
                "the front end has not reached any partition yet. Try again in a moment."
            )
        raise errors.EntityNotFound(
            f"there is no queue {name!r}. Create it first (bendybus apply, or an administration "
            "client).",
            metadata={"entity": name},
        )

    def by_uid(self, uid: str) -> Entity | None:
        """Return the entity with this UID."""
        return self._by_uid.get(uid)

    def live(self) -> list[Entity]:
        """Return what exists, by name."""
        return sorted((e for e in self._best.values() if not e.deleted), key=lambda e: e.key)
