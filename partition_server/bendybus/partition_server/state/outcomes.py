"""What a partition remembers of what is done, so that a repeat gets the first outcome.

| memory | remembers | shared by | after a restart |
|---|---|---|---|
| `producer_memory` | units of producers' frames | entity | known |
| `transaction_outcomes` | transactions, beside frames | entity | known |
| `outcomes.Operations` | cancels, deletes, receives by number | entity | unknown |
| `settler_memory` | tokens that receivers settled | slot | void, as the tokens |

Each forgets by bounds that all users share (see `shares`), and knows up to when something of a user
may be forgotten: what was first tried before that, and is not remembered, is never taken for new.
"""

import itertools
from collections import OrderedDict
from typing import Final, NamedTuple, Protocol, TypeVar

from bendybus.domain import errors, limits
from bendybus.partition_server.state import shares
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import (
    CancelScheduled,
    DeleteMessages,
    Now,
    ReceiveDeferred,
)

User = TypeVar("User", contravariant=True)
AGE_MS_MAX: Final = 5 * limits.MINUTE_MS
OPERATIONS_MAX: Final = 10_000
BYTES_MAX: Final = 8 * limits.MB


class Bounds(NamedTuple):
    """How much is remembered: of all users together, and for how long."""

    entries: int
    size_bytes: int
    age_ms: int


class Outcomes(Protocol[User]):
    """A memory of outcomes."""

    def bounds(self) -> Bounds:
        """Return what it may take."""

    def used(self) -> tuple[int, int]:
        """Return what it takes: how many entries, and bytes."""

    def unknown_before(self, user: User, now: Now) -> int:
        """Return until when, on the monotonic clock, something of a user may be forgotten."""


def may_be_forgotten(memory: Outcomes[User], user: User, age_ms: int, now: Now) -> bool:
    """Whether what was first tried `age_ms` ago, and is not remembered, may be done already."""
    return age_ms > 0 and now.mono_ms - age_ms <= memory.unknown_before(user, now)


Outcome = TypeVar("Outcome")


class _Outcome(NamedTuple):
    at_mono_ms: int
    value: object
    size_bytes: int


def name_of(command: CancelScheduled | DeleteMessages | ReceiveDeferred) -> bytes:
    """Return what names an operation in this partition, b"" if it has no name.

    Raises InvalidArgument.
    """
    operation_id, entity = command.operation_id, command.entity
    if len(operation_id) > limits.OPERATION_ID_BYTES_MAX:
        raise errors.InvalidArgument(
            "operation_id", f"must be at most {limits.OPERATION_ID_BYTES_MAX} bytes."
        )
    return operation_id and b"%s/%d/%s" % (entity.uid.encode(), entity.sub_queue, operation_id)


class _Window:
    """What is remembered of the operations on one entity, oldest first."""

    def __init__(self) -> None:
        # The first of a plain dict is behind all that were taken out before it.
        self.outcomes: OrderedDict[bytes, _Outcome] = OrderedDict()
        self.size_bytes = 0
        self.forgot_until_mono_ms = 0


class Operations:
    """The memory of one partition since its file was opened; bounded, each entity to its share."""

    def __init__(self, now: Now) -> None:
        self._opened_mono_ms = now.mono_ms
        # By entity; the one that was used last comes last.
        self._windows: OrderedDict[bytes, _Window] = OrderedDict()
        self._count = self._bytes = 0

    def outcome_of(self, name: bytes, age_ms: int, now: Now, kind: type[Outcome]) -> Outcome | None:
        """Return the outcome of an operation that was done, None for a new one.

        Raises OutcomeUnknown when it may have been done and is not remembered any more;
        InvalidArgument when the name is that of an operation whose outcome is no `kind`.
        """
        if not name:
            return None
        window = self._windows.get(_entity_of(name))
        found = window.outcomes.get(name) if window else None
        if found is not None:
            if not isinstance(found.value, kind):
                raise errors.InvalidArgument(
                    "operation_id",
                    "names an operation of another kind. Give each operation a name of its own.",
                )
            return found.value
        if may_be_forgotten(self, _entity_of(name), age_ms, now):
            raise errors.OutcomeUnknown(
                "outcome unknown: the partition was reopened since then, or many operations on "
                "this entity followed it. Check whether it was done."
            )
        return None

    def bounds(self) -> Bounds:
        """Return what the memory may take."""
        return Bounds(OPERATIONS_MAX, BYTES_MAX, AGE_MS_MAX)

    def used(self) -> tuple[int, int]:
        """Return what it takes."""
        return self._count, self._bytes

    def unknown_before(self, user: bytes, now: Now) -> int:
        """Return until when something of an entity may be forgotten."""
        window = self._windows.get(user)
        return max(self._opened_mono_ms, window.forgot_until_mono_ms if window else 0)

    def remember(self, name: bytes, value: object, now: Now) -> None:
        """Note an outcome that is committed."""
        entity = _entity_of(name)
        window = self._windows.setdefault(entity, _Window())
        self._windows.move_to_end(entity)
        if name in window.outcomes:
            # Received by number once more, after the locks of the first time ended.
            self._drop(window, name)
        size_bytes = _size_bytes(value)
        if size_bytes > BYTES_MAX:
            # Rather a repeat that is told "unknown" than all other outcomes forgotten.
            window.forgot_until_mono_ms = now.mono_ms
            return
        window.outcomes[name] = _Outcome(now.mono_ms, value, size_bytes)
        self._size(window, 1, size_bytes)
        # Two at a time are more than come in: it stays small, and no turn is long.
        for entity in list(itertools.islice(self._windows, 2)):
            self._forget_old(entity, now)
        if self._count > OPERATIONS_MAX or self._bytes > BYTES_MAX:
            self._forget_surplus()

    def _forget_old(self, entity: bytes, now: Now) -> None:
        window, before_ms = self._windows[entity], now.mono_ms - AGE_MS_MAX
        for known in list(itertools.islice(window.outcomes, 2)):
            if window.outcomes[known].at_mono_ms < before_ms:
                self._forget(window, known)
        if not window.outcomes and window.forgot_until_mono_ms < before_ms:
            del self._windows[entity]

    def _forget_surplus(self) -> None:
        """Forget the oldest of those entities that have more than their share."""
        windows = list(self._windows.values())
        count = shares.level([len(each.outcomes) for each in windows], OPERATIONS_MAX)
        size_bytes = shares.level([each.size_bytes for each in windows], BYTES_MAX)
        for window in windows:
            while len(window.outcomes) > count or window.size_bytes > size_bytes:
                if self._count <= OPERATIONS_MAX and self._bytes <= BYTES_MAX:
                    return
                self._forget(window, next(iter(window.outcomes)))

    def _forget(self, window: _Window, name: bytes) -> None:
        at_mono_ms = window.outcomes[name].at_mono_ms
        window.forgot_until_mono_ms = max(window.forgot_until_mono_ms, at_mono_ms)
        self._drop(window, name)

    def _drop(self, window: _Window, name: bytes) -> None:
        self._size(window, -1, -window.outcomes.pop(name).size_bytes)

    def _size(self, window: _Window, count: int, size_bytes: int) -> None:
        window.size_bytes += size_bytes
        self._count += count
        self._bytes += size_bytes


def _entity_of(name: bytes) -> bytes:
    return name.partition(b"/")[0]


def _size_bytes(value: object) -> int:
    if isinstance(value, Delivery):
        return 200 + sum(row.size() for row in value.rows)
    return 200
