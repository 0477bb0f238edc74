"""Spark's session in other threads: `activate(spark)` at the start of each that reads or writes.

Spark looks for formats written in Python in the session that is active in a thread, and a thread of
Python's own has none: it answers DATA_SOURCE_NOT_FOUND. `foreachBatch` needs nothing.
"""

from typing import Any


def activate(spark: Any) -> None:
    """Let this thread find the format `bendybus`, in a session."""
    # Of Spark's public calls, the one that does.
    spark.createDataFrame([], "activated boolean")
