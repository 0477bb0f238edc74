"""Outcomes of named operations, remembered for a while: a repeat is answered, not done again.

Cancelling, deleting and receiving by number are named by their callers, within an entity. The
memory is bounded in number, bytes and age, and not durable: a repeat that may have been done before
the file was opened is told that its outcome is unknown.
"""

import itertools
from collections import OrderedDict
from typing import Any, Final, NamedTuple, TypeVar

from bendybus.domain import errors, limits
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import (
    CancelScheduled,
    DeleteMessages,
    Now,
    ReceiveDeferred,
)

Outcome = TypeVar("Outcome")
AGE_MS_MAX: Final = 5 * limits.MINUTE_MS
OPERATIONS_MAX: Final = 10_000
BYTES_MAX: Final = 8 * limits.MB


class _Outcome(NamedTuple):
    at_mono_ms: int
    value: Any
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


class Operations:
    """The memory of one partition since its file was opened."""

    def __init__(self, now: Now) -> None:
        self._forgot_until_mono_ms = now.mono_ms
        # The first of a plain dict is behind all that were taken out before it.
        self._outcomes: OrderedDict[bytes, _Outcome] = OrderedDict()
        self._bytes = 0

    def outcome_of(self, name: bytes, age_ms: int, now: Now, kind: type[Outcome]) -> Outcome | None:
        """Return the outcome of an operation that was done, None for a new one.

        Raises OutcomeUnknown when it may have been done and is not remembered any more;
        InvalidArgument when the name is that of an operation whose outcome is no `kind`.
        """
        if not name:
            return None
        found = self._outcomes.get(name)
        if found is not None:
            if not isinstance(found.value, kind):
                raise errors.InvalidArgument(
                    "operation_id",
                    "names an operation of another kind. Give each operation a name of its own.",
                )
            return found.value
        if age_ms > 0 and now.mono_ms - age_ms <= self._forgot_until_mono_ms:
            raise errors.OutcomeUnknown(
                "the outcome of the operation's first try is unknown: the partition was reopened "
                "since then. Check whether it was done.",
            )
        return None

    def remember(self, name: bytes, value: Any, now: Now) -> None:
        """Note an outcome, STRICTLY AFTER its commit."""
        if name in self._outcomes:
            # Received by number once more, after the locks of the first time ended.
            self._bytes -= self._outcomes.pop(name).size_bytes
        size_bytes = _size_bytes(value)
        if size_bytes > BYTES_MAX:
            # Rather a repeat that is told "unknown" than all other outcomes forgotten.
            self._forgot_until_mono_ms = now.mono_ms
            return
        self._outcomes[name] = _Outcome(now.mono_ms, value, size_bytes)
        self._bytes += size_bytes
        # Two at a time are more than come in: it stays small, and no turn is long.
        for known in list(itertools.islice(self._outcomes, 2)):
            if self._outcomes[known].at_mono_ms < now.mono_ms - AGE_MS_MAX:
                self._forget(known)
        while len(self._outcomes) > OPERATIONS_MAX or self._bytes > BYTES_MAX:
            self._forget(next(iter(self._outcomes)))

    def _forget(self, name: bytes) -> None:
        outcome = self._outcomes.pop(name)
        self._bytes -= outcome.size_bytes
        self._forgot_until_mono_ms = max(self._forgot_until_mono_ms, outcome.at_mono_ms)


def _size_bytes(value: Any) -> int:
    if isinstance(value, Delivery):
        return 200 + sum(row.size() for row in value.rows)
    return 200
