"""What Spark calls to write: a thin layer over sink/task_writer.py."""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from bendybus.spark import bus_errors, columns, errors
from bendybus.spark.bus import ConnectedSender
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.options import WriteOptions
from bendybus.spark.sink import arrow_rows, fences
from bendybus.spark.sink.lane import Attempt, Sender
from bendybus.spark.sink.task_writer import TaskWriter

logger = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# Of a streaming query, its run: another one after each start.
_RUN_ID = "spark.jobGroup.id"
_TYPES: Final = {
    "body": ("binary", "string"),
    "head": ("binary",),
    "properties": ("map<string,string>",),
    "time_to_live_ms": ("bigint", "int"),
    "scheduled_enqueue_time": ("timestamp",),
}
_TEXT: Final = ("string",)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    rows: int = 0
    stored: int = 0
    repeated: int = 0
    duplicates: int = 0
    # Why the task failed: of streaming writes, see StreamWriter.
    error: str = ""


class BatchWriter(DataSourceArrowWriter):
    """A batch write. Made once, on the driver: all tasks have the same key."""

    def __init__(self, options: WriteOptions, schema: Any, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options
        self._write_id = uuid.uuid4().hex
        self._key = f"batch\0{options.idempotency_key or self._write_id}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task. On executors."""
        with bus_errors.shown(_path(self._options)):
            self._check_task()
            return _write(self._options, self._attempt(), iterator)

    def commit(self, messages: list[Any]) -> None:
        """Say what was written. Raises OptionError if there were fewer tasks than `tasks`."""
        _log(self._options, messages, "written")
        said, found = self._options.tasks, len(messages)
        # An empty frame has one task, whatever it had with rows in it.
        if said > found and any(each is not None and each.rows for each in messages):
            repeats = (
                f"set tasks to {found}, with which a repeat stores nothing"
                if self._correct(found)
                else "a repeat under this idempotencyKey could store them twice; set tasks to "
                "df.rdd.getNumPartitions(), and use another key for the next write"
            )
            with errors.shown():
                raise OptionError(
                    f"option tasks: {said} were said, and the write had {found}. All rows are "
                    f"stored; {repeats}"
                )

    def abort(self, messages: list[Any]) -> None:
        """Say what was written: it stays, and a repeat under the same key passes over it."""
        _log(self._options, messages, "aborted")
        if 0 < self._options.tasks < len(messages):
            self._correct(len(messages))

    def _attempt(self) -> Attempt:
        context = TaskContext.get()
        return Attempt(
            self._key,
            context.partitionId() if context else 0,
            1,
            self._options.tasks,
            write=self._write_id,
        )

    def _correct(self, tasks: int) -> bool:
        """Have the entity keep how many tasks this write had; return whether it does."""
        path = _path(self._options)
        if not path:
            # Of each row: tasks that failed do not say which.
            return False
        try:
            with bus_errors.translated(path):
                sender = ConnectedSender(self._options.connection, path, self._options.timeout_s)
                return fences.correct_claim(self._attempt(), sender, tasks)
        except PipelineError as error:
            logger.warning("%s: the number of tasks is not corrected: %s", path, error)
            return False

    def _check_task(self) -> None:
        """Raise OptionError, before anything is stored, in a task beyond `tasks`."""
        context, most = TaskContext.get(), self._options.tasks
        if context and 0 < most <= context.partitionId():
            raise OptionError(
                f"option tasks: the write has more tasks than {most}; set it to "
                "df.rdd.getNumPartitions(), or use df.coalesce"
            )


class StreamWriter(DataSourceStreamArrowWriter):
    """The writes of a streaming query. Spark makes one for each batch and task.

    A task that cannot write says so in its message, and `commit` raises it: of an error in the task
    Spark only tells that "Writing job failed". The batch is not committed either way.
    """

    def __init__(self, options: WriteOptions, schema: Any, overwrite: bool) -> None:
        _check(options, schema, overwrite)
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task. On executors."""
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context else None
        batch = context.getLocalProperty(_BATCH_ID) if context else None
        if not query or batch is None:
            with errors.shown():
                raise PipelineError(
                    "a streaming write runs in the tasks of a query only; use writeStream"
                )
        try:
            with bus_errors.translated(_path(self._options)):
                run = context.getLocalProperty(_RUN_ID) or ""
                task = context.partitionId()
                attempt = Attempt(f"query\0{query}", task, int(batch) + 1, run=run)
                return _write(self._options, attempt, iterator)
        except PipelineError as error:
            # This worker lives on: the setting that hides tracebacks is not made.
            return Written(error=str(error))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Say what was written. Raises PipelineError if a task could not write."""
        for message in messages:
            if message is not None and message.error:
                with errors.shown():
                    raise PipelineError(message.error)
        _log(self._options, messages, f"batch {batchId} written")

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Say what was written: it stays, and the repeat of the batch passes over it."""
        _log(self._options, messages, f"batch {batchId} aborted")


def _check(options: WriteOptions, schema: Any, overwrite: bool) -> None:
    with errors.shown():
        if overwrite:
            raise OptionError(
                'mode: overwrite is not for a bus, which only takes messages; use mode("append")'
            )
        _check_columns(schema, to_one_entity=options.entity is not None)


def _write(options: WriteOptions, attempt: Attempt, iterator: Iterator[Any]) -> Written:
    path = _path(options)

    def sender_of(entity: str) -> Sender:
        return ConnectedSender(options.connection, entity, options.timeout_s)

    totals = TaskWriter(attempt, sender_of, path, options.timeout_s).write(
        arrow_rows.of(iterator, attempt.task)
    )
    return Written(totals.rows, totals.stored, totals.repeated, totals.duplicates)


def _path(options: WriteOptions) -> str:
    return options.entity.path if options.entity else ""


def _log(options: WriteOptions, messages: list[Any], what: str) -> None:
    found = [message for message in messages if message is not None]
    logger.info(
        "%s: %s: rows=%d stored=%d repeated=%d duplicates=%d",
        _path(options) or "entities of rows",
        what,
        sum(each.rows for each in found),
        sum(each.stored for each in found),
        sum(each.repeated for each in found),
        sum(each.duplicates for each in found),
    )


def _check_columns(schema: Any, *, to_one_entity: bool) -> None:
    """Raise OptionError for a schema that rows to write cannot have."""
    names = [field.name.lower() for field in schema.fields]
    for field in schema.fields:
        name, type_ = field.name.lower(), field.dataType.simpleString()
        if name in columns.PASSED_OVER:
            continue
        if name not in columns.WRITTEN:
            raise OptionError(
                f"column {field.name}: is unknown to the bus; allowed are "
                f"{', '.join(columns.WRITTEN)}. Select these, or put values into body, for "
                "example with to_json"
            )
        allowed = _TYPES.get(name, _TEXT)
        if type_ not in allowed:
            raise OptionError(
                f"column {field.name}: must be {' or '.join(allowed)} (got {type_}); cast it"
            )
    for name in columns.WRITTEN:
        if names.count(name) > 1:
            raise OptionError(f"column {name}: is there more than once; keep one of them")
    if "body" not in names:
        raise OptionError("column body: is required; it is what a message carries")
    if not to_one_entity and not {"topic", "entity"} & set(names):
        raise OptionError(
            "option queue: is required; or topic, or a column topic that names the entity of "
            "each row"
        )
    if {"topic", "entity"} <= set(names) and not to_one_entity:
        raise OptionError("column topic: contradicts the column entity; keep one of them")
