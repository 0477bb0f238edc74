"""The format `bendybus` of Spark: `spark.read.format("bendybus")`, and the same for the others.

Spark imports this module in several processes, also for formats of others: nothing heavy here.
"""

from typing import Any

from pyspark.sql.datasource import DataSource

from bendybus.spark import columns, errors, option_table, options
from bendybus.spark.errors import OptionError
from bendybus.spark.option_table import Use


class BendybusDataSource(DataSource):
    """Queues, topics and subscriptions as DataFrames. Options: `option_table.OPTIONS`."""

    def __init__(self, options: Any) -> None:
        """Take the options of the user. Raises OptionError for an unknown one."""
        super().__init__(options)
        with errors.shown():
            for key in options:
                option_table.check_known(key)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bendybus"

    def schema(self) -> str:
        """Return the columns that are read."""
        with errors.shown():
            names, body = options.columns_of(self.options)
            return columns.ddl(names, body)

    def reader(self, schema: Any) -> Any:
        """Return what reads a batch."""
        from bendybus.spark.source import readers

        with errors.shown():
            found = options.of_read(self.options, Use.BATCH_READ)
        kind = readers.FilteredBatchReader if found.push_filters else readers.BatchReader
        return kind(found, schema)

    def streamReader(self, schema: Any) -> Any:
        """Return what reads a stream."""
        from bendybus.spark.source import readers

        try:
            found = options.of_read(self.options, Use.STREAM_READ)
            return readers.StreamReader(found, schema)
        except OptionError as error:
            # Spark's source runner would report a defect of its own in place of an error here.
            return readers.RefusedStreamReader(error)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Return what writes a batch."""
        from bendybus.spark.sink import writers

        with errors.shown():
            found = options.of_write(self.options, Use.BATCH_WRITE)
            return writers.BatchWriter(found, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Return what writes the batches of a stream."""
        from bendybus.spark.sink import writers

        with errors.shown():
            found = options.of_write(self.options, Use.STREAM_WRITE)
            return writers.StreamWriter(found, schema, overwrite)


class RangesDataSource(BendybusDataSource):
    """A stream of the ranges that batches read, for jobs whose tasks read them by themselves.

    Messages that go through Spark's JVM are converted there twice. Registered by these jobs; only
    `readStream` is meant.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bendybus_ranges"

    def schema(self) -> str:
        """Return the fields of `source.ranges.Range`."""
        return (
            "partition int NOT NULL, after bigint NOT NULL, upto bigint NOT NULL, "
            "incarnation string NOT NULL, gone bigint NOT NULL"
        )

    def streamReader(self, schema: Any) -> Any:
        """Return what reads a stream."""
        from bendybus.spark.source import readers

        try:
            found = options.of_read(self.options, Use.STREAM_READ)
            return readers.RangesStreamReader(found, schema)
        except OptionError as error:
            return readers.RefusedStreamReader(error)


def activate(spark: Any) -> None:
    """Let the thread that calls this find the format `bendybus` in a session of Spark.

    Spark looks for formats written in Python in the session that is active in a thread; a thread of
    Python's own has none, and gets DATA_SOURCE_NOT_FOUND. `foreachBatch` does not need this.
    """
    # The public call of Spark that makes a session active.
    spark.createDataFrame([], "activated boolean")
