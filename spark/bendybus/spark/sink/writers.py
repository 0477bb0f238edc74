"""What Spark calls to write: a thin layer over sink/task_writer.py."""

import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from bendybus.spark import bus_errors, errors
from bendybus.spark.errors import OptionError, PipelineError
from bendybus.spark.options import WriteOptions
from bendybus.spark.sink import rows
from bendybus.spark.sink.bus import ConnectedSender
from bendybus.spark.sink.task_writer import Attempt, Sender, TaskWriter

logger = logging.getLogger(__name__)
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# Of a streaming query, its run: another one after each start.
_RUN_ID = "spark.jobGroup.id"


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
        self._key = f"batch\0{options.idempotency_key or uuid.uuid4().hex}"

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task. On executors."""
        with bus_errors.shown(_path(self._options)):
            self._check_task()
            return _write(self._options, self._key, 1, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Say what was written. Raises OptionError if there were fewer tasks than `tasks`."""
        _log(self._options, messages, "written")
        if self._options.tasks > len(messages):
            with errors.shown():
                raise OptionError(
                    f"option tasks: {self._options.tasks} were said, and the write had "
                    f"{len(messages)}. All rows are stored, but a repeat under this idempotencyKey "
                    "could store them twice; set tasks to df.rdd.getNumPartitions(), and use "
                    "another key for the next write"
                )

    def abort(self, messages: list[Any]) -> None:
        """Say what was written: it stays, and a repeat under the same key passes over it."""
        _log(self._options, messages, "aborted")

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
                return _write(self._options, f"query\0{query}", int(batch) + 1, iterator, run)
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
        rows.check(schema, to_one_entity=options.entity is not None)


def _write(
    options: WriteOptions, key: str, epoch: int, iterator: Iterator[Any], run: str = ""
) -> Written:
    path = _path(options)
    context = TaskContext.get()
    attempt = Attempt(key, context.partitionId() if context else 0, epoch, options.tasks, run)

    def sender_of(entity: str) -> Sender:
        return ConnectedSender(options.connection, entity, options.timeout_s)

    totals = TaskWriter(attempt, sender_of, path, options.timeout_s).write(
        rows.of_batches(iterator)
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
