"""What `--fix` makes of a dead letter: the dictionary that the function returns is the message."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bendybus.spark import columns as names
from bendybus.spark.errors import PipelineError, RowError
from bendybus.spark.sink import messages
from bendybus.spark.sink.messages import Encoded
from bendybus.spark.source.decoding import Columns, body_of
from bendybus.v1 import message_pb2
from bendybus.v1.message_pb2 import Message

Fix = Callable[[dict[str, Any]], dict[str, Any] | None]
_TIMES: Final = ("enqueued_at", "scheduled_at", "expires_at")
_SCHEDULED: Final = "scheduled_enqueue_time"
_KNOWN: Final = {*names.ALL, *names.BY_WRITTEN}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def called(fix: Fix, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a function makes of a row; None: it is left. Raises PipelineError."""
    where = f"--fix: at dead letter {row['sequence_number']}"
    try:
        fixed = fix({**row, "properties": dict(row["properties"] or ())})
    except Exception as error:  # a boundary: the function is the user's
        raise PipelineError(f"{where} the function failed with {error!r}; correct it") from error
    if fixed is None:
        return None
    if not isinstance(fixed, dict):
        raise PipelineError(
            f"{where} the function returned {fixed!r:.80}; return the dictionary, or None to leave "
            "the message"
        )
    unknown = sorted(map(str, fixed.keys() - _KNOWN))
    if unknown:
        raise PipelineError(
            f"{where} the function returned {', '.join(unknown)}, which a message does not have; "
            f"it has {', '.join(sorted(_KNOWN))}"
        )
    return fixed


def message(page: Columns, index: int, fix: Fix) -> Encoded | None:
    """Return a dead letter as a function corrects it; None: it is left. Raises PipelineError.

    A value that is None is none in the message, and a property that is not returned is gone. What
    is not changed keeps its type, the body too.
    """
    row = page.row(index)
    for name in _TIMES:
        if row[name] is not None:
            row[name] = _EPOCH + timedelta(microseconds=row[name])
    fixed = called(fix, row)
    if fixed is None:
        return None
    try:
        made = _encoded(page, index, row, fixed)
        # What cannot be in a message is named here, not where a frame is sent.
        made.key(detects_duplicates=False)
        messages.batch_of([made])
    except (RowError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise PipelineError(f"--fix: at dead letter {row['sequence_number']}: {error}") from error
    same = fixed.get("body") == row["body"]
    return made._replace(body=body_of(page.head_and_body(index)[1])) if same else made


def _encoded(
    page: Columns, index: int, row: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Encoded:
    properties = dict(fixed.get("properties") or ())
    head = Message.FromString(row["head"])
    changes = message_pb2.ValueMap.FromString(page.changes(index))
    for name, value in changes.entries.items():
        head.application_properties[name].CopyFrom(value)
    for name in set(head.application_properties) - properties.keys():
        del head.application_properties[name]
    for name in messages.TEXTS:
        if fixed.get(name) is None:
            head.ClearField(name)
    stored = head.SerializeToString(deterministic=True)
    scheduled = fixed.get(_SCHEDULED)
    if isinstance(scheduled, datetime):
        scheduled = int(scheduled.timestamp() * 1_000)
    values = {**fixed, "head": stored, "properties": properties.items(), _SCHEDULED: scheduled}
    return messages.encode(values, row["message_id"] or "")
