"""What a streaming query reads next. Spark's source runner calls it, one call after another.

    new query:   initial ── latest (returns the start: an empty batch 0 pins it) ── latest …
    each batch:  latest(start): describe ── begin to settle up to start ── deal ── end
    restart:     ranges(start, end) of the batch that was not finished

Whenever `latest(start)` is called, all of what is at or below `start` is in Spark's commit log,
also after the last batch; `commit` comes one batch late, or never. So this is where it settles,
beside the batch that follows, but never by a number of another incarnation: there, other messages
have it now.
"""

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from bendybus.domain import sequence_number
from bendybus.spark import bus_errors
from bendybus.spark.bus import Bus
from bendybus.spark.errors import DataLossError, OptionError, PipelineError
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import positions, ranges
from bendybus.spark.source.drain import Drain
from bendybus.spark.source.positions import Dealer
from bendybus.spark.source.ranges import Extent, Offset, Range, Shape

logger = logging.getLogger(__name__)
# Of a partition, unless maxMessagesPerTrigger is set.
MESSAGES_PER_PARTITION: Final = 10_000
# How often an idle query looks, whatever its trigger.
IDLE_S: Final = 0.25
LOOK_S: Final = 0.5


class StreamPlanner:
    """The plan of one query run. Not thread-safe."""

    def __init__(
        self,
        options: ReadOptions,
        bus: Bus,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._options = options
        self._bus = bus
        self._clock = clock
        self._sleep = sleep
        self._dealer = Dealer(bus.number_at)
        self._path = options.entity.path
        self._initial: Offset | None = None
        self._pinned = True
        self._drain: Drain | None = None
        # Of a run that reads what is available now: where it ends.
        self._targets: dict[int, int] | None = None
        self._extents: list[Extent] = []
        # What was logged: kind → partition → why.
        self._told: dict[str, dict[int, str]] = {}
        self._idle_since: float | None = None
        self._batch_at: float | None = None

    def prepare_available_now(self) -> None:
        """Note where each partition ends now: this run reads no further, and all of that."""
        self._targets = {}
        self._look()

    def default_limit(self) -> int:
        """Return how many messages a batch has at most."""
        if self._options.max_messages:
            return self._options.max_messages
        return MESSAGES_PER_PARTITION * len(self._look())

    def initial(self) -> dict[str, Any]:
        """Return where a new query starts: the same one however often it is asked."""
        if self._initial is None:
            options = self._options
            extents = self._known()
            owner = (options.owner or f"spark-{uuid.uuid4().hex[:12]}") if options.drains else ""
            self._initial = positions.initial(options.starting, extents, self._bus.number_at, owner)
            self._pinned = False
        return self._initial.to_json()

    def latest(self, given: dict[str, Any], limit: int | None) -> dict[str, Any]:
        """Begin to settle what is at or below the start; return where the next batch ends."""
        if not self._pinned:
            # The first batch of a new query is empty: it writes the start into the checkpoint.
            self._pinned = True
            return given
        start = ranges.offset_of(given)
        self._pause()
        extents = self._look()
        self._check_loss(start, extents)
        if self._options.drains:
            self._lease(start).settle(_moved(start, extents))
        ends = self._ends(start, extents, limit)
        if not ends and self._targets is not None:
            extents, ends = self._await_rest(start, extents, limit)
        if not ends:
            if self._targets is not None:
                left = self._left(start, extents)
                self._finish(start, extents)
                self._check_all_read(left)
            elif self._drain is not None:
                self._drain.await_settled()
            self._idle_since = self._clock()
            return given
        self._idle_since, self._batch_at = None, self._clock()
        end = ranges.advanced(start, extents, ends, self._owner(start))
        return replace(end, shape=self._shape()).to_json()

    def report(self) -> dict[str, Any] | None:
        """Return the end of what was there at the last look, for the query's progress."""
        answered = [extent for extent in self._extents if not extent.unavailable]
        if not answered:
            return None
        return Offset(
            {extent.partition: extent.stable_tail for extent in answered},
            {extent.partition: extent.incarnation for extent in answered},
        ).to_json()

    def ranges(self, given: dict[str, Any], ending: dict[str, Any]) -> list[Range]:
        """Return what the tasks of a batch read."""
        # There is a checkpoint, so the start is in it.
        self._pinned = True
        start, end = ranges.offset_of(given), ranges.offset_of(ending)
        found = ranges.between(start, end)
        if not found:
            return []
        shape = self._shape_of(end)
        if shape.session_id is not None:
            partition = self._bus.partition_of(shape.session_id)
            found = [each for each in found if each.partition == partition]
        if self._options.drains and found:
            self._await_ready(end, {each.partition for each in found})
        return ranges.cut(found, shape.min_partitions)

    def _shape(self) -> Shape:
        """Return the shape of the batches that this run begins."""
        options = self._options
        return Shape(options.min_partitions, options.states, options.session_id)

    def _shape_of(self, end: Offset) -> Shape:
        """Return the shape that a batch was begun with. Raises OptionError for other rows.

        Its tasks may have written: cut in another way, they would be others with the same numbers.
        """
        today = self._shape()
        if end.shape is None:
            logger.warning(
                "%s: the unfinished batch was begun by a version that does not record "
                "minPartitions; it is cut as that option says now (%d)",
                self._path, today.min_partitions,
            )  # fmt: skip
            return today
        for name, then in end.shape.to_json().items():
            now = today.to_json()[name]
            if now == then:
                continue
            if name != "minPartitions":
                raise OptionError(
                    f"option {name}: a batch that was begun with {_option_text(then)} is not "
                    f"finished, and {_option_text(now)} would give it other rows. Start with the "
                    "former until it is finished, or use another checkpointLocation."
                )
            logger.warning(
                "%s: the unfinished batch is cut as it was begun, with minPartitions=%d",
                self._path, then,
            )  # fmt: skip
        return end.shape

    def _ends(self, start: Offset, extents: list[Extent], limit: int | None) -> dict[int, int]:
        """Return where the next batch ends, by partition; nothing: there is no batch."""
        if self._options.drains:
            ready = self._lease(start).ready()
            away = {extent.partition for extent in extents if extent.unavailable}
            waiting = self._lease(start).why_waiting().items()
            self._tell("not drained", {p: why for p, why in waiting if p not in away})
            extents = [extent for extent in extents if extent.partition in ready]
        spans = ranges.spans(start, extents, self._targets)
        everything = ranges.deal(spans, None)
        if not everything or self._waits(ranges.waiting(start, everything, extents)):
            return {}
        if limit is not None and self._options.max_bytes:
            limit = min(limit, ranges.within_bytes(extents, self._options.max_bytes))
        if self._options.by_time:
            return self._ends_by_time(spans, extents, limit)
        return ranges.deal(spans, limit)

    def _ends_by_time(
        self, spans: dict[int, tuple[int, int]], extents: list[Extent], limit: int | None
    ) -> dict[int, int]:
        """Return where the next batch ends; nothing while a partition cannot be read."""
        known = {extent.partition for extent in extents if not extent.unavailable}
        if self._targets is not None:
            known &= self._targets.keys()
        if len(known) < len(self._extents):
            # What it has would come after a watermark that passed it.
            return {}
        if limit is None:
            return ranges.deal(spans, None)
        try:
            return self._dealer.ends(spans, limit)
        except bus_errors.RETRYABLE as error:
            logger.warning("%s: the next batch waits: %s", self._path, error)
            return {}

    def _waits(self, messages: int) -> bool:
        """Whether too few messages are there yet, and they have not waited for too long."""
        if messages >= self._options.min_messages or self._targets is not None:
            return False
        if self._batch_at is None:
            return False
        return self._clock() - self._batch_at < self._options.max_delay_s

    def _check_loss(self, start: Offset, extents: list[Extent]) -> None:
        lost = ranges.losses(start, extents)
        for partition, why in lost.items():
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{self._path}, partition {partition}: {why}. Set failOnDataLoss=false to go "
                    "on with what is there, or start again with another checkpointLocation."
                )
        self._tell("data lost", lost)

    def _look(self) -> list[Extent]:
        self._extents = self._bus.extents()
        away = {each.partition: each.unavailable for each in self._extents if each.unavailable}
        self._tell("unavailable", away)
        if self._targets is not None:
            for extent in self._extents:
                if not extent.unavailable:
                    self._targets.setdefault(extent.partition, extent.stable_tail)
        return self._extents

    def _tell(self, what: str, found: dict[int, str]) -> None:
        """Log what was found of partitions, once for as long as it stays so."""
        known = self._told.get(what, {})
        for partition, why in found.items():
            if partition not in known:
                logger.warning("%s/%d: %s: %s", self._path, partition, what, why)
        self._told[what] = found

    def _known(self) -> list[Extent]:
        """Return the extents when those are there without which the start is not known."""
        return positions.awaited_extents(
            self._look, [self._options.starting], self._options, self._clock, self._sleep
        )

    def _pause(self) -> None:
        """Let time pass between two looks of an idle query."""
        if self._idle_since is not None:
            left_s = IDLE_S - (self._clock() - self._idle_since)
            if left_s > 0:
                self._sleep(left_s)

    # A run that reads what is available now

    def _await_rest(
        self, start: Offset, extents: list[Extent], limit: int | None
    ) -> tuple[list[Extent], dict[int, int]]:
        """Wait until more of the run can be read; return the extents, and where that ends."""
        until = self._clock() + self._options.timeout_s
        while self._left(start, extents) and self._clock() < until:
            self._sleep(LOOK_S)
            extents = self._look()
            self._check_loss(start, extents)
            ends = self._ends(start, extents, limit)
            if ends:
                return extents, ends
        return extents, {}

    def _left(self, start: Offset, extents: list[Extent]) -> list[str]:
        """Return a phrase for each partition that is not read to the end of this run."""
        assert self._targets is not None, "only such a run ends"
        wanted = self._options.session_id
        only = None if wanted is None else self._bus.partition_of(wanted)
        spans = ranges.spans(start, extents, self._targets)
        waiting = self._drain.why_waiting() if self._drain is not None else {}
        found = []
        for extent in extents:
            partition = extent.partition
            if only not in (None, partition):
                continue
            target = self._targets.get(partition)
            read = sequence_number.counter_of(start.number(partition))
            if extent.unavailable and (target is None or read < sequence_number.counter_of(target)):
                why = extent.unavailable.rstrip(".")
                found.append(f"partition {partition} is away ({why})")
            elif partition in spans:
                last = {partition: spans[partition][1]}
                count, reason = ranges.waiting(start, last, extents), waiting.get(partition)
                found.append(
                    f"partition {partition} has {count}"
                    f"{f' ({reason})' if reason is not None else ''}"
                )
        return found

    def _check_all_read(self, left: list[str]) -> None:
        if left:
            raise PipelineError(
                f"{self._path}: the run ends with messages left behind: {'; '.join(left)}. What "
                "was read is committed. Start the query again when that is over, or set a longer "
                "timeout."
            )

    # A drain

    def _owner(self, start: Offset) -> str:
        return (self._options.owner or start.owner) if self._options.drains else ""

    def _lease(self, start: Offset) -> Drain:
        if self._drain is None:
            owner = self._owner(start)
            if not owner:
                raise PipelineError(
                    f"{self._path}: the checkpoint is of a query with settle=none, and this one "
                    "has settle=trailing; use another checkpointLocation, or settle=none"
                )
            self._drain = Drain(
                self._bus, self._path, owner, self._options.lease_s, self._clock
            ).keep()
        return self._drain

    def _await_ready(self, end: Offset, partitions: set[int]) -> None:
        """Hold the lease where a batch is read: after a restart, it is not there yet."""
        lease = self._lease(end)
        until = self._clock() + self._options.timeout_s
        while not partitions <= lease.ready():
            if self._clock() >= until:
                partition, why = next(iter(lease.why_waiting().items()))
                raise PipelineError(
                    f"{self._path}, partition {partition}: cannot be drained yet: {why}. Close "
                    "its receivers or wait for their locks to end, then start the query again."
                )
            self._sleep(LOOK_S)

    def _finish(self, start: Offset, extents: list[Extent]) -> None:
        """Settle the last batch of a run that ends, and let receivers in. Raises PipelineError.

        They would receive what was committed and is not removed, so a partition that was drained
        and went away is waited for.
        """
        if self._drain is None:
            return
        until = self._clock() + self._options.timeout_s
        while True:
            self._drain.settle(_moved(start, extents))
            self._drain.await_settled()
            behind = self._drain.behind(self._read_by_now(start, extents))
            if not behind:
                break
            if self._clock() >= until:
                raise PipelineError(
                    f"{self._path}, partition {behind[0]}: what was read and committed could not "
                    "be removed, and receivers get it once the lease has ended. Start the query "
                    "again when the partition is there, or set a longer timeout."
                )
            self._sleep(LOOK_S)
            extents = self._look()
        self._drain.release()
        self._drain = None

    def _read_by_now(self, start: Offset, extents: list[Extent]) -> dict[int, tuple[int, str]]:
        """Return what was read of partitions, also of those that are away."""
        known = {each.partition for each in extents if not each.unavailable}
        away = {
            partition: (start.number(partition), incarnation)
            for partition, incarnation in start.incarnations.items()
            if partition not in known and sequence_number.counter_of(start.number(partition))
        }
        return {**_moved(start, extents), **away}


def _option_text(value: Any) -> str:
    """Return the value of an option as its user writes it."""
    if value is None:
        return "none"
    return repr(",".join(value) if isinstance(value, list) else value)


def _moved(start: Offset, extents: list[Extent]) -> dict[int, tuple[int, str]]:
    """Return what was read of partitions whose numbers are still the same ones."""
    return {
        each.partition: (start.number(each.partition), each.incarnation)
        for each in extents
        if start.incarnations.get(each.partition) == each.incarnation
        and sequence_number.counter_of(start.number(each.partition))
    }
