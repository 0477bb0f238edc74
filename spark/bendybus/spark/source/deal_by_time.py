"""Which part of a backlog a batch takes where a watermark follows: up to one enqueued time.

Dealt by lag, a batch would have new messages of a short partition beside old ones of a long one. A
watermark then passes the rest of the long one, and Spark drops it as late. No I/O of its own.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from bendybus.spark.source import ranges
from bendybus.spark.source.positions import NumberAt

Spans = Mapping[int, tuple[int, int]]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Later than all messages.
_LAST_MS: Final = 1 << 43
# Of the limit: a batch that has so many is large enough, and the search ends.
_ENOUGH: Final = 0.75
_FIRST_GUESS_MS: Final = 1_000


class Dealer:
    """Deals the batches of one query, each of which begins where the one before ended."""

    def __init__(self, number_at: NumberAt) -> None:
        self._number_at = number_at
        # Before which all was dealt, and how much time the last batch was of: the next one is
        # likely to be of as much.
        self._dealt_ms = 0
        self._length_ms = _LAST_MS // 4

    def ends(self, spans: Spans, limit: int) -> dict[int, int]:
        """Return where each partition's part of a batch ends; at most `limit` numbers.

        `spans`: (after, last) of each partition. Raises what `number_at` does.
        """
        few = {partition: after for partition, (after, _) in spans.items()}
        many = {partition: last for partition, (_, last) in spans.items()}
        if _count(spans, many) <= limit:
            return many
        low_ms, high_ms, step_ms = self._dealt_ms, _LAST_MS, 2 * self._length_ms
        while high_ms - low_ms > 1 and _count(spans, few) < _ENOUGH * limit:
            # From what was dealt on in growing steps, until it is too much; then by halving.
            middle_ms = low_ms + min(step_ms, (high_ms - low_ms + 1) // 2)
            found = self._before(spans, middle_ms)
            if _count(spans, found) <= limit:
                low_ms, few, step_ms = middle_ms, found, 2 * step_ms
            else:
                high_ms, many = middle_ms, found
        if not _count(spans, few):
            # All of one millisecond, which is late for no watermark that waits at all.
            narrow = {p: (after, many[p]) for p, (after, _) in spans.items() if many[p] > after}
            return ranges.deal(narrow, limit)
        if self._dealt_ms:
            self._length_ms = max(1, low_ms - self._dealt_ms)
        else:
            self._length_ms = _FIRST_GUESS_MS
        self._dealt_ms = low_ms
        return {p: number for p, number in few.items() if number > spans[p][0]}

    def _before(self, spans: Spans, moment_ms: int) -> dict[int, int]:
        """Return the last number of each partition that was enqueued before a time."""
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
        return {
            partition: min(last, max(after, self._number_at(partition, moment)))
            for partition, (after, last) in spans.items()
        }


def _count(spans: Spans, ends: Mapping[int, int]) -> int:
    return sum(ends[partition] - after for partition, (after, _) in spans.items())
