"""`pipeline dlq redrive`: dead letters that are wanted go back, each sent once, then removed.

lease ──► plan: which numbers (Spark evaluates the condition) ──► kept, if there is a checkpoint
      ──► a task for each partition moves them (redrive_task) ──► plan forgotten, lease ended
"""

import importlib
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bendybus.domain import subscription_name
from bendybus.spark import connections, options
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import redrive_fix, redrive_journal
from bendybus.spark.jobs.redrive_fix import Fix
from bendybus.spark.jobs.redrive_journal import Plan
from bendybus.spark.jobs.redrive_task import Moved, Task, move
from bendybus.spark.option_table import Use
from bendybus.spark.options import ReadOptions
from bendybus.spark.source.bus import ConnectedBus
from bendybus.spark.source.drain import LOOK_S, Drain

logger = logging.getLogger(__name__)
# Numbers of a plan are in the driver's memory: some 40 MB.
PLANNED_MAX: Final = 1_000_000
_COLUMNS: Final = "sent bigint, repeated bigint, duplicates bigint, removed bigint"


@dataclass(frozen=True, slots=True)
class Redrive:
    """Which dead letters, and where to. `source`: the options of the format, without subQueue."""

    source: Mapping[str, str]
    # "": the queue, or the topic of the subscription.
    to: str = ""
    # A condition of Spark SQL on the columns of the format.
    where: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    # 0: all, up to PLANNED_MAX.
    most: int = 0
    # `module:function`: gets a message as a dictionary, returns it changed, or None to leave it.
    fix: str = ""
    checkpoint: Path | None = None


@dataclass(frozen=True, slots=True)
class Redriven:
    """What was done. `continued`: the plan was that of an interrupted run."""

    planned: int
    moved: Moved = field(default_factory=Moved)
    continued: bool = False


def preview(spark: Any, wanted: Redrive) -> Any:
    """Return a DataFrame of what would be moved; nothing is."""
    return _chosen(spark, wanted)


def redrive(spark: Any, wanted: Redrive) -> Redriven:
    """Move dead letters. Raises PipelineError."""
    found = _options(wanted)
    source = found.entity.path
    bus = ConnectedBus(found)
    fixer(wanted.fix)
    # An interrupted run's lease is taken over by the next run with its checkpoint.
    kept = wanted.checkpoint
    owner = uuid.uuid4().hex[:12] if kept is None else redrive_journal.owner(kept)
    lease = _lease(bus, found, f"redrive-{owner}")
    try:
        plan, continued = _plan(spark, wanted, found, bus)
        if not plan.count():
            return Redriven(0)
        moved = _move(spark, wanted, found, plan, lease)
        if wanted.checkpoint is not None:
            redrive_journal.done(wanted.checkpoint)
        logger.info("%s: %d dead letters redriven to %s", source, moved.removed, plan.destination)
        return Redriven(plan.count(), moved, continued)
    finally:
        lease.release()


def destination(wanted: Redrive, source: ReadOptions) -> str:
    """Return where dead letters are sent."""
    # No message can be sent to a subscription: its topic decides again who gets it.
    return wanted.to or subscription_name.family(source.entity.name)


def fixer(named: str) -> Fix | None:
    """Return the function of `module:function`; None for "". Raises OptionError."""
    if not named:
        return None
    module, _, name = named.partition(":")
    try:
        found: Fix = getattr(importlib.import_module(module), name)
        if not callable(found):
            raise TypeError(f"{name} must be a function")
    except Exception as error:  # a boundary: the module is the user's
        raise OptionError(
            f"--fix: {named!r} cannot be loaded ({error!r}); name module:function, of a module "
            "that driver and executors can import"
        ) from None
    return found


def _options(wanted: Redrive) -> ReadOptions:
    given = {**wanted.source, "subQueue": "deadletter"}
    return options.of_read(given, Use.BATCH_READ)


def _lease(bus: ConnectedBus, found: ReadOptions, owner: str) -> Drain:
    """Return the lease of all partitions, once no receiver has dead letters locked."""
    path = found.entity.path
    lease = Drain(bus, path, owner, found.lease_s).keep()
    until = time.monotonic() + found.timeout_s
    while (waiting := lease.ready() and lease.why_waiting()) and time.monotonic() < until:
        time.sleep(LOOK_S)
    for partition, why in (waiting or lease.why_waiting()).items():
        lease.release()
        raise PipelineError(
            f"{path}, partition {partition}: cannot be drained yet: {why}. Close its receivers or "
            "wait for their locks to end, then start again."
        )
    return lease


def _plan(spark: Any, wanted: Redrive, found: ReadOptions, bus: ConnectedBus) -> tuple[Plan, bool]:
    """Return what is to be moved, and whether an interrupted run had planned it."""
    incarnations = {each.partition: each.incarnation for each in bus.extents()}
    path, to = found.entity.path, destination(wanted, found)
    known = None if wanted.checkpoint is None else redrive_journal.read(wanted.checkpoint)
    if known is None:
        plan = Plan(path, to, _numbers(spark, wanted), incarnations)
        if wanted.checkpoint is not None and plan.count():
            redrive_journal.write(wanted.checkpoint, plan)
        return plan, False
    if (known.source, known.destination) != (path, to):
        raise OptionError(
            f"--checkpoint: {wanted.checkpoint} has an interrupted run from {known.source} to "
            f"{known.destination}; finish that one, or name another folder"
        )
    # "": not known, as the partition did not answer; its task looks again.
    pairs = {p: (known.incarnations.get(p, ""), incarnations.get(p, "")) for p in known.numbers}
    changed = [p for p, (then, now) in pairs.items() if then and now and then != now]
    if changed:
        raise PipelineError(
            f"{path}, partition {changed[0]}: was made again, or restored, since the interrupted "
            f"run; its numbers mean other messages now. Remove {wanted.checkpoint} to begin again."
        )
    return known, True


def _numbers(spark: Any, wanted: Redrive) -> dict[int, Sequence[int]]:
    rows = _chosen(spark, wanted, numbers=True).select("partition", "sequence_number")
    most = wanted.most or PLANNED_MAX + 1
    found: dict[int, list[int]] = {}
    for row in rows.orderBy("sequence_number").limit(most).collect():
        found.setdefault(row.partition, []).append(row.sequence_number)
    if not wanted.most and sum(map(len, found.values())) > PLANNED_MAX:
        raise OptionError(
            f"--max: is required, as more than {PLANNED_MAX} dead letters are wanted; repeat the "
            "command until none is left"
        )
    return dict(found)


def _chosen(spark: Any, wanted: Redrive, *, numbers: bool = False) -> Any:
    """Return the dead letters that are wanted. `numbers`: no other column is needed."""
    given = {**wanted.source, "subQueue": "deadletter"}
    if numbers and not wanted.where and not wanted.fix:
        given["columns"] = "partition,sequence_number"
    frame = spark.read.format("bendybus").options(**given).load()
    if wanted.where:
        frame = frame.where(wanted.where)
    if not wanted.fix:
        return frame
    named, schema = wanted.fix, frame.schema

    def fixed(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from bendybus.spark import errors

        fix = fixer(named)
        assert fix is not None
        for batch in batches:
            rows = batch.to_pylist()
            with errors.shown():
                kept = [redrive_fix.called(fix, row) for row in rows]
            yield batch.filter(pa.array([row is not None for row in kept], pa.bool_()))

    return frame.mapInArrow(fixed, schema)


def _move(spark: Any, wanted: Redrive, found: ReadOptions, plan: Plan, lease: Drain) -> Moved:
    owner, epoch = lease.owner, lease.epoch
    connection, named, source = found.connection, wanted.fix, found.entity
    properties, timeout_s = dict(wanted.properties), found.timeout_s
    to, name, incarnations = plan.destination, plan.name, dict(plan.incarnations)

    def moved(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from bendybus.spark import bus_errors

        for batch in batches:
            for row in batch.to_pylist():
                task = Task(
                    name,
                    source,
                    to,
                    row["partition"],
                    incarnations.get(row["partition"], ""),
                    row["numbers"],
                    owner,
                    epoch,
                    properties,
                    timeout_s,
                )
                with bus_errors.shown(to):
                    done = move(connections.client(connection), task, fixer(named))
                counts = [done.sent, done.repeated, done.duplicates, done.removed]
                yield pa.RecordBatch.from_arrays(
                    [pa.array([count], pa.int64()) for count in counts],
                    names=["sent", "repeated", "duplicates", "removed"],
                )

    rows = [(partition, list(numbers)) for partition, numbers in plan.numbers.items() if numbers]
    frame = spark.createDataFrame(rows, "partition int, numbers array<bigint>")
    tasks = frame.repartitionByRange(len(rows), "partition").mapInArrow(moved, _COLUMNS)
    total = Moved()
    for row in tasks.collect():
        total += Moved(row.sent, row.repeated, row.duplicates, row.removed)
    return total
