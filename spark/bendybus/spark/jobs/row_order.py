"""Rows of a session, or of a key, are sent in their order: by one task, which has them sorted.

Spark reads files in pieces, side by side, and small files with the largest first. What a sender had
sent in order would come back in another one.
"""

from collections.abc import Sequence
from typing import Any, Final

# Tasks that rows are dealt to, whatever the cores: rows under an idempotency key are known by task.
TASKS: Final = 16
_FILE, _AT, _ROW = "__file", "__at", "__row"
# Where a row is in the files that are read.
PLACES: Final = (
    f"_metadata.file_path AS {_FILE}",
    f"_metadata.file_block_start AS {_AT}",
    f"monotonically_increasing_id() AS {_ROW}",
)
BY_PLACE: Final = (_FILE, _AT, _ROW)


def kept(frame: Any, keys: Sequence[str], by: Sequence[str]) -> Any:
    """Return a frame in which rows of the same key are in one task, ordered by columns.

    `keys`: columns; the first that is not null is the key. Rows without a key go to any task.
    """
    from pyspark.sql import functions as sql

    named = [sql.col(name).cast("string") for name in keys]
    anywhere = sql.xxhash64(*by).cast("string")
    dealt = frame.repartition(TASKS, sql.coalesce(*named, anywhere))
    return dealt.sortWithinPartitions(*by)
