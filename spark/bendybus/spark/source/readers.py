"""What Spark calls to read: a thin layer over the planners. Pickled to planners and executors."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from bendybus.spark import bus_errors, columns, errors
from bendybus.spark.errors import OptionError
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import batch_planner, filter_bounds
from bendybus.spark.source.bus import ConnectedBus
from bendybus.spark.source.filter_bounds import Bounds
from bendybus.spark.source.range_reader import RangeReader
from bendybus.spark.source.ranges import Range
from bendybus.spark.source.stream_planner import StreamPlanner


class RangeTask(InputPartition):
    """The range of one task."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)


class BatchReader(DataSourceReader):
    """A batch read."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema = schema
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task a range."""
        with bus_errors.shown(self._options.entity.path):
            bus = ConnectedBus(self._options)
            planned = batch_planner.plan(self._options, bus, self._bounds)
            return [RangeTask(each) for each in planned]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the messages of a range as record batches."""
        return batches(self._options, self._schema, partition)


class FilteredBatchReader(BatchReader):
    """A batch read whose filters choose what is read."""

    # Spark calls it with the name of its parameter.
    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        """Take the filters that choose ranges; yield those that Spark still needs."""
        self._bounds, left = filter_bounds.take(filters, self._bounds)
        yield from left


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read. Its planner lives in the source runner, one for each run of a query."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        check_schema(schema, options)
        self._options = options
        self._schema = schema
        self._made: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Executors only read; the plan is in what they are given.
        return {**self.__dict__, "_made": None}

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the run ends."""
        with bus_errors.shown(self._options.entity.path):
            self._planner.prepare_available_now()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how many messages a batch has at most."""
        with bus_errors.shown(self._options.entity.path):
            return ReadMaxRows(self._planner.default_limit())

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts."""
        with bus_errors.shown(self._options.entity.path):
            return self._planner.initial()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next batch ends."""
        with bus_errors.shown(self._options.entity.path):
            return self._planner.latest(start, getattr(limit, "max_rows", None))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of what is there, for the query's progress."""
        return self._planner.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return one task a range."""
        with bus_errors.shown(self._options.entity.path):
            return [RangeTask(each) for each in self._planner.ranges(start, end)]

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: it comes a batch late, and not after the last one; see StreamPlanner."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the messages of a range as record batches."""
        return batches(self._options, self._schema, partition)

    @property
    def _planner(self) -> StreamPlanner:
        if self._made is None:
            self._made = StreamPlanner(self._options, ConnectedBus(self._options))
        return self._made


class RangesStreamReader(StreamReader):
    """A streaming read of ranges in place of their messages: a row for each task."""

    def __init__(self, options: ReadOptions, schema: Any) -> None:
        self._options = options
        self._schema = schema
        self._made = None

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the range of a task, as `range_of` takes it. Nothing of it is read."""
        wanted = partition.value
        if isinstance(wanted, Range):
            import pyarrow as pa
            from pyspark.sql.pandas.types import to_arrow_schema

            fields = to_arrow_schema(self._schema, timezone="UTC")
            yield pa.RecordBatch.from_pylist([asdict(wanted)], fields)


def range_of(batch: Any) -> Range:
    """Return the range of a record batch of one row that a RangesStreamReader yielded."""
    (row,) = batch.to_pylist()
    return Range(**row)


class RefusedStreamReader(DataSourceStreamReader):
    """A streaming read that cannot be: it says so when Spark first calls it."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raise the error."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Raise the error."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        with errors.shown():
            raise self._error


def batches(options: ReadOptions, schema: Any, partition: InputPartition) -> Iterator[Any]:
    """Yield the record batches of a task. On executors."""
    # What Spark makes of a read without tasks has no range.
    if isinstance(partition.value, Range):
        yield from batches_of(options, schema, partition.value, options.entity.path)


def batches_of(options: ReadOptions, schema: Any, wanted: Range, path: str) -> Iterator[Any]:
    """Yield the messages of a range as record batches. On executors.

    `path`: what the column `entity` has.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    from bendybus.spark.source import arrow, decoding

    arrow_schema = to_arrow_schema(schema, timezone="UTC")
    reader = RangeReader(
        ConnectedBus(options),
        path,
        timeout_s=options.timeout_s,
        fail_on_data_loss=options.fail_on_data_loss,
        bodies=columns.BODY in arrow_schema.names,
    )
    with bus_errors.shown(path):
        for page in reader.pages(wanted):
            if len(page.batch.sequence_numbers):
                found = decoding.Columns(page.batch, path, wanted.name)
                yield arrow.batch(found, arrow_schema, options.session_id)


def check_schema(schema: Any, options: ReadOptions) -> None:
    """Raise OptionError for a schema of the user that names other columns or types."""
    with errors.shown():
        for field in schema.fields:
            known = columns.BY_NAME.get(field.name)
            if known is None:
                raise OptionError(
                    f"schema: {field.name} is not a column; columns are {', '.join(columns.ALL)}"
                )
            types = (known.type, "string") if known.name == columns.BODY else (known.type,)
            if field.dataType.simpleString() not in types:
                raise OptionError(
                    f"schema: {field.name} is {' or '.join(types)} "
                    f"(got {field.dataType.simpleString()}); leave the schema out, and cast"
                )
