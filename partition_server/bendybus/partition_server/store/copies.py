"""The copies of a published message as rows of its subscriptions."""

from typing import Final

from bendybus.domain import message_format
from bendybus.partition_server.store.records import BODY_ID_BYTES, SHARED_FORMAT, Row

_PAYLOAD: Final = Row._fields.index("payload")
_FORMAT: Final = Row._fields.index("format")
_NUMBER: Final = Row._fields.index("enqueued_sequence_number")
# Several times as fast as `_make` and `_replace`.
_made: Final = tuple.__new__
assert _FORMAT == _PAYLOAD + 1
assert message_format.NEWEST < SHARED_FORMAT


class Copies:
    """Makes the copies of a published message at its subscriptions, which differ in few columns."""

    __slots__ = ("_before", "_between", "_number", "_stored", "_tail", "row", "size_bytes")

    def __init__(self, row: Row, number: int, reference: bytes | None) -> None:
        """`number`: that of the message at its topic. `reference`: to its body, if it is shared."""
        self.row = row
        shared = reference is not None
        format_ = row.format + SHARED_FORMAT if shared else row.format
        self._before = row[3:_PAYLOAD]
        self._between = (format_, *row[_FORMAT + 1 : _NUMBER], number, *row[_NUMBER + 1 :])
        self._stored = (row.payload if reference is None else reference, *self._between)
        self._tail = (row.payload, *self._between)
        # What each counts to its subscription. A body that is shared counts to the topic.
        self.size_bytes = row.size() - (len(row.payload) - BODY_ID_BYTES if shared else 0)

    def at(self, id_: int, enqueued_ms: int) -> tuple[Row, Row]:
        """Return the copy with its body, and as the file has it."""
        head = (id_, self.row[1], enqueued_ms, *self._before)
        return _made(Row, head + self._tail), _made(Row, head + self._stored)
