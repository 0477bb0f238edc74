"""Outcomes of named operations, remembered for a while: a repeat is answered, not done again.

Cancelling, deleting and receiving by number are named by their callers. The memory is bounded in
number, bytes and age, and not durable: a repeat that may have been done before the file was opened
is told that its outcome is unknown.
"""

import itertools
from collections import OrderedDict
from typing import Any, Final, NamedTuple, TypeVar

from bendybus.domain import errors, limits
from bendybus.partition_server.state.answers import Delivery
from bendybus.partition_server.state.commands import Now

Outcome = TypeVar("Outcome")
AGE_MS_MAX: Final = 5 * limits.MINUTE_MS
OPERATIONS_MAX: Final = 10_000
BYTES_MAX: Final = 8 * limits.MB


class _Outcome(NamedTuple):
    at_mono_ms: int
    value: Any
    size_bytes: int


class Operations:
    """The memory of one partition since its file was opened."""

    def __init__(self, now: Now) -> None:
        self._opened_mono_ms = now.mono_ms
        self._forgot_until_mono_ms = now.mono_ms
        # The first of a plain dict is behind all that were taken out before it.
        self._outcomes: OrderedDict[bytes, _Outcome] = OrderedDict()
        self._bytes = 0

    def outcome_of(
        self, operation_id: bytes, age_ms: int, now: Now, kind: type[Outcome]
    ) -> Outcome | None:
        """Return the outcome of an operation that was done, None for a new one.

        Raises OutcomeUnknown when it may have been done and is not remembered any more;
        InvalidArgument when the name is that of an operation whose outcome is no `kind`.
        """
        if not operation_id:
            return None
        if len(operation_id) > limits.OPERATION_ID_BYTES_MAX:
            raise errors.InvalidArgument(
                "operation_id", f"must be at most {limits.OPERATION_ID_BYTES_MAX} bytes."
            )
        found = self._outcomes.get(operation_id)
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

    def remember(self, operation_id: bytes, value: Any, now: Now) -> None:
        """Note an outcome, STRICTLY AFTER its commit."""
        if operation_id in self._outcomes:
            # Received by number once more, after the locks of the first time ended.
            self._bytes -= self._outcomes.pop(operation_id).size_bytes
        size_bytes = _size_bytes(value)
        if size_bytes > BYTES_MAX:
            # Rather a repeat that is told "unknown" than all other outcomes forgotten.
            self._forgot_until_mono_ms = now.mono_ms
            return
        self._outcomes[operation_id] = _Outcome(now.mono_ms, value, size_bytes)
        self._bytes += size_bytes
        # Two at a time are more than come in: it stays small, and no turn is long.
        for known in list(itertools.islice(self._outcomes, 2)):
            if self._outcomes[known].at_mono_ms < now.mono_ms - AGE_MS_MAX:
                self._forget(known)
        while len(self._outcomes) > OPERATIONS_MAX or self._bytes > BYTES_MAX:
            self._forget(next(iter(self._outcomes)))

    def _forget(self, operation_id: bytes) -> None:
        outcome = self._outcomes.pop(operation_id)
        self._bytes -= outcome.size_bytes
        self._forgot_until_mono_ms = max(self._forgot_until_mono_ms, outcome.at_mono_ms)


def _size_bytes(value: Any) -> int:
    if isinstance(value, Delivery):
        return 200 + sum(row.size() for row in value.rows)
    return 200
