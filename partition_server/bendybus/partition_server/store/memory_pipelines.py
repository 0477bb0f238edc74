"""Leases of drains and fences of producers, in the store without a file."""

from collections import Counter
from operator import attrgetter

from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.store.fence_reads import FORGOTTEN_A_COMMIT
from bendybus.partition_server.store.pipeline_records import Fence, Lease
from bendybus.partition_server.store.records import Changes


class MemoryPipelines:
    """See fence_reads.FenceReads."""

    def __init__(self) -> None:
        self._leases: dict[tuple[str, SubQueue], Lease] = {}
        self._fences: dict[tuple[int, bytes], Fence] = {}

    def leases(self) -> list[Lease]:
        """Return the leases of drains."""
        return [self._leases[key] for key in sorted(self._leases)]

    def fence(self, slot: int, producer_id: bytes) -> Fence | None:
        """See FenceReads."""
        return self._fences.get((slot, producer_id))

    def fence_counts(self, since_ms: int = 0) -> dict[int, int]:
        """See FenceReads."""
        return Counter(each.slot for each in self._fences.values() if each.at_ms >= since_ms)

    def commit(self, changes: Changes) -> None:
        """Take what a commit notes and forgets."""
        for lease in changes.leases:
            self._leases[lease.uid, lease.sub_queue] = lease
        for uid in changes.leases_removed:
            for key in [each for each in self._leases if each[0] == uid]:
                del self._leases[key]
        old = sorted(self._fences.values(), key=attrgetter("at_ms"))[:FORGOTTEN_A_COMMIT]
        for fence in old:
            if fence.at_ms < changes.fences_before_ms:
                del self._fences[fence.slot, fence.producer_id]
        for fence in changes.fences:
            self._fences[fence.slot, fence.producer_id] = fence
        for slot in changes.slots_removed:
            for each in [each for each in self._fences if each[0] == slot]:
                del self._fences[each]
