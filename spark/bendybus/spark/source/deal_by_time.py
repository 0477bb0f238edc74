"""Which part of a backlog a batch takes where a watermark follows: up to one enqueued time.

Dealt by lag, a batch would have new messages of a short partition beside old ones of a long one. A
watermark then passes the rest of the long one, and Spark drops it as late. No I/O of its own.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.spark.source.positions import NumberAt

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Later than all messages.
_LAST_MS: Final = 1 << 43
# Of the limit: a batch that has so many is large enough, and the search ends.
_ENOUGH: Final = 0.75


def ends(spans: Mapping[int, tuple[int, int]], limit: int, number_at: NumberAt) -> dict[int, int]:
    """Return where each partition's part of a batch ends, all of them at one enqueued time.

    `spans`: (after, last) of each partition. At most `limit` numbers, but those of a millisecond at
    least. Raises what `number_at` does.
    """

    def before(moment_ms: int) -> dict[int, int]:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
        return {
            partition: min(last, max(after, number_at(partition, moment)))
            for partition, (after, last) in spans.items()
        }

    def count(found: Mapping[int, int]) -> int:
        return sum(found[partition] - after for partition, (after, _) in spans.items())

    low_ms, high_ms = 0, _LAST_MS
    few = {partition: after for partition, (after, _) in spans.items()}
    many = {partition: last for partition, (_, last) in spans.items()}
    if count(many) <= limit:
        return many
    while high_ms - low_ms > 1 and count(few) < _ENOUGH * limit:
        middle_ms = (low_ms + high_ms) // 2
        found = before(middle_ms)
        if count(found) <= limit:
            low_ms, few = middle_ms, found
        else:
            high_ms, many = middle_ms, found
    chosen = few if count(few) else many
    return {p: number for p, number in chosen.items() if number > spans[p][0]}
