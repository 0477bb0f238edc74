"""`pipeline dlq redrive`: dead letters that are wanted go back, each sent once, then removed.

lease ──► plan: which numbers (Spark evaluates the condition) ──► kept, if there is a checkpoint
      ──► a task for each partition moves them (redrive_task) ──► plan forgotten, lease ended
"""

import importlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bendybus.domain import limits, subscription_name
from bendybus.spark import bus, options
from bendybus.spark.bus import ConnectedBus
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.jobs import redrive_task
from bendybus.spark.jobs.redrive_task import Fix, Moved, Task, move
from bendybus.spark.option_table import Use
from bendybus.spark.options import ReadOptions
from bendybus.spark.source.drain import LOOK_S, Drain

logger = logging.getLogger(__name__)
# Numbers of a plan are in the driver's memory: some 40 MB.
PLANNED_MAX: Final = 1_000_000
_COLUMNS: Final = (
    "sent bigint, repeated bigint, duplicates bigint, removed bigint, refused map<bigint,string>"
)
PLAN_FILE: Final = "redrive.json"
_OWNER_FILE: Final = "redrive-owner"
_VERSION: Final = 1
# A day before partitions forget what a plan sent: the run itself takes time.
_CONTINUED_MS: Final = limits.FENCE_MS - limits.DAY_MS


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
    owner = uuid.uuid4().hex[:12] if kept is None else _owner_of(kept)
    lease = _lease(bus, found, f"redrive-{owner}")
    try:
        plan, continued = _plan(spark, wanted, found, bus)
        if not plan.count():
            return Redriven(0)
        moved = _move(spark, wanted, found, plan, lease)
        if wanted.checkpoint is not None:
            _end_plan(wanted.checkpoint)
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


@dataclass(frozen=True, slots=True)
class Plan:
    """Dead letters, by partition in the order of their numbers, and where they go."""

    source: str
    destination: str
    numbers: Mapping[int, Sequence[int]]
    # Of the partitions, as they were when this was planned.
    incarnations: Mapping[int, str]
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    # When it was made.
    at_ms: int = field(default_factory=lambda: int(time.time() * 1_000))

    def count(self) -> int:
        """Return how many dead letters that is."""
        return sum(map(len, self.numbers.values()))


def _plan(spark: Any, wanted: Redrive, found: ReadOptions, bus: ConnectedBus) -> tuple[Plan, bool]:
    """Return what is to be moved, and whether an interrupted run had planned it."""
    incarnations = {each.partition: each.incarnation for each in bus.extents()}
    path, to = found.entity.path, destination(wanted, found)
    known = None if wanted.checkpoint is None else read_plan(wanted.checkpoint)
    if known is None:
        plan = Plan(path, to, _numbers(spark, wanted), incarnations)
        if wanted.checkpoint is not None and plan.count():
            write_plan(wanted.checkpoint, plan)
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
                kept = [redrive_task.call_fix(fix, row) for row in rows]
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
                    done = move(bus.client(connection), task, fixer(named))
                counts = [done.sent, done.repeated, done.duplicates, done.removed]
                refused = pa.array([done.refused], pa.map_(pa.int64(), pa.string()))
                yield pa.RecordBatch.from_arrays(
                    [*(pa.array([count], pa.int64()) for count in counts), refused],
                    names=["sent", "repeated", "duplicates", "removed", "refused"],
                )

    rows = [(partition, list(numbers)) for partition, numbers in plan.numbers.items() if numbers]
    frame = spark.createDataFrame(rows, "partition int, numbers array<bigint>")
    tasks = frame.repartitionByRange(len(rows), "partition").mapInArrow(moved, _COLUMNS)
    total = Moved()
    for row in tasks.collect():
        refused = tuple(sorted(row.refused.items()))
        total += Moved(row.sent, row.repeated, row.duplicates, row.removed, refused)
    return total


def read_plan(folder: Path) -> Plan | None:
    """Return the plan of an interrupted run; None: there is none. Raises OptionError."""
    found = _read_plan(folder)
    if found is not None and time.time() * 1_000 - found.at_ms > _CONTINUED_MS:
        days = _CONTINUED_MS // limits.DAY_MS
        raise OptionError(
            f"--checkpoint: its interrupted run was planned more than {days} days ago, and what it "
            "sent without removing it may be forgotten, so that it would be sent twice; look for "
            f"that at {found.destination}, then remove {folder / PLAN_FILE} to begin again"
        )
    return found


def _read_plan(folder: Path) -> Plan | None:
    path = folder / PLAN_FILE
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found["v"] != _VERSION:
            raise ValueError(f"version {found['v']}")
        return Plan(
            found["source"],
            found["destination"],
            {int(partition): numbers for partition, numbers in found["numbers"].items()},
            {int(partition): text for partition, text in found["incarnations"].items()},
            found["name"],
            int(found["at_ms"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError(
            f"--checkpoint: {path} cannot be read ({error}); name another folder, or remove the "
            "file to begin again: what an interrupted run had sent may then be sent twice"
        ) from None


def write_plan(folder: Path, plan: Plan) -> None:
    """Keep a plan durably. Raises OptionError."""
    values = {
        "v": _VERSION,
        "name": plan.name,
        "at_ms": plan.at_ms,
        "source": plan.source,
        "destination": plan.destination,
        "numbers": {str(partition): list(each) for partition, each in plan.numbers.items()},
        "incarnations": {str(partition): text for partition, text in plan.incarnations.items()},
    }
    _write(folder, PLAN_FILE, json.dumps(values))


def _end_plan(folder: Path) -> None:
    """Forget the plan: all of it is done."""
    (folder / PLAN_FILE).unlink(missing_ok=True)
    _sync(folder)


def _owner_of(folder: Path) -> str:
    """Return the name of the folder's runs, which is made once. Raises OptionError."""
    path = folder / _OWNER_FILE
    try:
        found = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        found = uuid.uuid4().hex[:12]
        _write(folder, _OWNER_FILE, found)
    except (OSError, ValueError) as error:
        raise OptionError(
            f"--checkpoint: {path} cannot be read ({error}); name another folder, or remove it"
        ) from None
    return found


def _write(folder: Path, name: str, text: str) -> None:
    """Write a file durably, whole or not at all. Raises OptionError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f".{name}.tmp"
        with made.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.rename(folder / name)
        _sync(folder)
    except OSError as error:
        raise OptionError(f"--checkpoint: {folder} cannot be written: {error.strerror}") from None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
