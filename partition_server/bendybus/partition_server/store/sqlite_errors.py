"""Translates errors of SQLite into those of the store: no other module sees apsw's."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from bendybus.partition_server.store.errors import FileRefused, StoreFailed, StoreFull

# What a value raises that no column can hold.
_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, apsw.TooBigError)


def is_unwritable(error: BaseException) -> bool:
    """Whether a value of a transaction is to blame for its failure, and not the file."""
    return isinstance(error, _UNWRITABLE)


@contextlib.contextmanager
def translated(
    path: Path,
    other: type[FileRefused] | type[StoreFailed] = StoreFailed,
    *,
    failed: type[StoreFailed] = StoreFailed,
) -> Iterator[None]:
    """Raise the store's errors: `other` for a damaged file, `failed` for what else goes wrong."""
    try:
        yield
    except apsw.FullError as exc:
        raise StoreFull(f"{path}: no room left on the volume") from exc
    except (apsw.NotADBError, apsw.CorruptError) as exc:
        raise other(f"{path} is damaged or not an SQLite file ({exc}). Restore a backup.") from exc
    except apsw.Error as exc:
        raise failed(f"{path}: {exc}") from exc
