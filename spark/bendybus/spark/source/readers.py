"""What Spark calls to read: a thin layer over the planners. Pickled to planners and executors."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from bendybus.client.exceptions import InvalidRequestError, ServiceBusError
from bendybus.domain.sequence_number import base_below
from bendybus.spark import bus_errors, columns, errors
from bendybus.spark.bus import Bus, ConnectedBus, Page
from bendybus.spark.bus_errors import RETRYABLE, one_line
from bendybus.spark.columns import BODY
from bendybus.spark.errors import DataLossError, OptionError, PipelineError
from bendybus.spark.options import ReadOptions
from bendybus.spark.source import batch_planner
from bendybus.spark.source.batch_planner import Bounds
from bendybus.spark.source.decoding import Columns
from bendybus.spark.source.ranges import Range
from bendybus.spark.source.stream_planner import StreamPlanner

logger = logging.getLogger(__name__)
PAUSE_S: Final = 0.5


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
        self._bounds, left = batch_planner.take(filters, self._bounds)
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

    from bendybus.spark.source import decoding

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
                yield _record_batch(found, arrow_schema, options.session_id)


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


class RangeReader:
    """Reads one range. A partition that is unavailable is waited for, within the timeout."""

    def __init__(
        self,
        bus: Bus,
        path: str,
        *,
        timeout_s: float,
        fail_on_data_loss: bool,
        bodies: bool,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bus = bus
        self._path = path
        self._timeout_s = timeout_s
        self._fail_on_data_loss = fail_on_data_loss
        self._bodies = bodies
        self._clock = clock
        self._sleep = sleep

    def pages(self, wanted: Range) -> Iterator[Page]:
        """Yield the pages. Raises PipelineError."""
        with ThreadPoolExecutor(1, "bendybus-pages") as ahead:
            after = wanted.after
            coming = ahead.submit(self._page, wanted, after)
            while True:
                page = coming.result()
                if not self._holds(wanted, page, after):
                    return
                after = page.next_after
                if page.complete or after >= wanted.upto:
                    yield page
                    return
                coming = ahead.submit(self._page, wanted, after)
                yield page

    def _page(self, wanted: Range, after: int) -> Page:
        until = self._clock() + self._timeout_s
        while True:
            try:
                return self._bus.page(wanted.partition, after, wanted.upto, bodies=self._bodies)
            except RETRYABLE as error:
                if self._clock() >= until:
                    raise self._unavailable(wanted, error) from error
                self._sleep(PAUSE_S)
            except InvalidRequestError:
                made_again = self._made_again(wanted, after)
                if made_again is None:
                    raise
                return made_again

    def _made_again(self, wanted: Range, after: int) -> Page | None:
        """Return an empty page of an entity that has other numbers than those of a range.

        None if it is the one that was planned. One that was made again can have numbers of another
        form, and the bus knows none of the range.
        """
        for extent in self._bus.extents():
            if extent.partition == wanted.partition and not extent.unavailable:
                if wanted.incarnation in ("", extent.incarnation):
                    return None
                return Page(None, after, True, extent.incarnation, extent.low_watermark)
        return None

    def _unavailable(self, wanted: Range, error: ServiceBusError) -> PipelineError:
        return PipelineError(
            f"{self._path}, partition {wanted.partition}: could not be read for "
            f"{self._timeout_s:g} s: {one_line(error.message)} Start the query again when it is "
            "there, or set a longer timeout."
        )

    def _holds(self, wanted: Range, page: Page, after: int) -> bool:
        """Whether the range is the one that was planned. Raises DataLossError."""
        where = f"{self._path}, partition {wanted.partition}"
        advice = "Set failOnDataLoss=false to go on with what is there."
        if wanted.incarnation and page.incarnation != wanted.incarnation:
            if self._fail_on_data_loss:
                raise DataLossError(
                    f"{where}: was recreated or restored while it was read. {advice}"
                )
            logger.warning("%s: was recreated or restored; the rest of its range is lost", where)
            return False
        gone = max(after, wanted.gone, base_below(page.low_watermark))
        if page.low_watermark > gone and self._fail_on_data_loss:
            raise DataLossError(
                f"{where}: messages up to {page.low_watermark} expired or were purged before "
                f"those after {after} were read. {advice}"
            )
        return True


def _record_batch(page: Columns, schema: Any, session_id: str | None = None) -> Any:
    """Return the record batch of a page; only what is of the session, if one is given."""
    made = pa.RecordBatch.from_arrays([_array(page, field) for field in schema], schema=schema)
    if session_id is None:
        return made
    return made.filter(pa.array([session == session_id for session in page.sessions()]))


def _array(page: Columns, field: Any) -> Any:
    constant = page.constant(field.name)
    if constant is not None:
        return pa.repeat(pa.scalar(constant, field.type), page.count)
    if page.is_null(field.name):
        return pa.nulls(page.count, field.type)
    values = page.column(field.name)
    if field.name == BODY and pa.types.is_string(field.type):
        return _texts(page, values, field.type)
    return pa.array(values, field.type)


def _texts(page: Columns, values: Sequence[bytes | None], type_: Any) -> Any:
    try:
        return pa.array(values, pa.binary()).cast(type_)
    except pa.ArrowInvalid:
        numbers = page.column("sequence_number")
        for number, value in zip(numbers, values, strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                raise PipelineError(
                    f"the body of message {number} is not UTF-8 text; read it with body=binary"
                ) from None
        raise
