"""What other partitions forwarded, in the store without a file."""

from collections.abc import Sequence

from bendybus.partition_server.store.records import SLOT_SHIFT, Changes


class MemoryForwards:
    """See forward_reads.ForwardReads."""

    def __init__(self) -> None:
        # Source → UID, boot, sequence.
        self._last: dict[bytes, tuple[str, int, int]] = {}
        self._known: dict[bytes, set[int]] = {}
        self._choices: dict[int, int] = {}

    def last(self, source: bytes) -> tuple[int, int]:
        """See ForwardReads."""
        return self._last.get(source, ("", 0, 0))[1:]

    def known(self, source: bytes, counters: Sequence[int]) -> set[int]:
        """See ForwardReads."""
        return self._known.get(source, set()) & set(counters)

    def choices(self) -> dict[int, int]:
        """See ForwardReads."""
        return dict(self._choices)

    def commit(self, changes: Changes) -> None:
        """Take what a commit notes and forgets."""
        for frame in changes.forwarded:
            if frame.first:
                place = frame.source.place()
                self._forget([each for each in self._last if each.startswith(place)])
            name = frame.source.name()
            self._last[name] = (frame.source.uid, frame.boot, frame.sequence)
            known = self._known.setdefault(name, set())
            known.difference_update(frame.settled)
            known.difference_update({n for n in known if n < frame.settled_below})
            known.update(frame.stored)
        for id_, partition in changes.forward_choices.items():
            if partition is None:
                self._choices.pop(id_, None)
            else:
                self._choices[id_] = partition
        for slot in changes.slots_removed:
            for id_ in [each for each in self._choices if each >> SLOT_SHIFT == slot]:
                del self._choices[id_]
        for uid in changes.forward_sources_removed:
            place = f"{uid}/".encode()
            self._forget(
                [
                    source
                    for source, last in self._last.items()
                    if last[0] == uid or source.startswith(place)
                ]
            )

    def _forget(self, sources: Sequence[bytes]) -> None:
        for source in sources:
            del self._last[source]
            self._known.pop(source, None)
