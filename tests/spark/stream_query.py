"""A streaming query without Spark."""

import json
from typing import Any

from bendybus.spark.source.ranges import Range
from bendybus.spark.source.stream_planner import StreamPlanner
from tests.spark.memory_bus import Clock, MemoryBus, stream_options


class Query:
    """Calls a planner as Spark does: each batch is written down before it runs, then committed."""

    def __init__(self, bus: MemoryBus, *, now: bool = False, **given: str) -> None:
        self.bus = bus
        self.clock = Clock()
        self.now = now
        self.given = given
        # The offset log, and how many of its batches are in the commit log.
        self.log: list[dict[str, Any]] = []
        self.committed = 0
        self.read: list[str] = []
        # Of the last batch that was planned.
        self.tasks: list[Range] = []
        self.restart()

    def restart(self, **changed: str) -> None:
        """Start again from the checkpoint, in another process, with some options changed."""
        self.given |= changed
        self.planner = StreamPlanner(
            stream_options(**self.given), self.bus, clock=self.clock, sleep=self.clock.sleep
        )
        if self.now:
            self.planner.prepare_available_now()
        if not self.log:
            self.planner.initial()
        elif self.committed < len(self.log):
            self._run_last()

    def trigger(self, *, dies: bool = False) -> bool:
        """Make one trigger; return whether it had a batch. `dies`: in the middle of it."""
        start = self.log[-1] if self.log else self.planner.initial()
        limit = self.planner.default_limit()
        end = json.loads(json.dumps(self.planner.latest(start, limit)))
        if self.log and end == start:
            return False
        self.log.append(end)
        if dies:
            self._rows()
            return True
        self._run_last()
        return True

    def run(self) -> int:
        """Trigger until there is nothing more; return how many batches there were."""
        count = 0
        while self.trigger():
            count += 1
        return count

    def _run_last(self) -> None:
        self.read += self._rows()
        self.committed = len(self.log)

    def _rows(self) -> list[str]:
        start = self.log[-2] if len(self.log) > 1 else self.planner.initial()
        self.tasks = self.planner.ranges(start, self.log[-1])
        return [
            self.bus.partitions[each.partition].messages[counter]
            for each in self.tasks
            for counter in sorted(self.bus.partitions[each.partition].messages)
            if each.after < self.bus.partitions[each.partition].number(counter) <= each.upto
        ]
