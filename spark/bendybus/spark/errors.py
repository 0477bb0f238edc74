"""Errors that Spark shows to a user, each one sentence: what, where, what to do.

PipelineError
├── OptionError        an option that is unknown, invalid, or contradicts another one
├── DataLossError      messages were gone before they were read
├── LeaseLostError     another pipeline drains the entity
├── RowError           a row that cannot become a message
└── RowsChangedError   an attempt was given other rows than the one before it
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Final

# Of a Python worker that fails: Spark then shows the sentence instead of the traceback.
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


class PipelineError(Exception):
    """Raised when a read or write of Spark cannot be done as it was asked for."""


class OptionError(PipelineError):
    """Raised for an option that is unknown, invalid, or contradicts another one."""


class DataLossError(PipelineError):
    """Raised when messages were gone before they were read, and `failOnDataLoss` is true."""


class LeaseLostError(PipelineError):
    """Raised when the lease of a drain is held by another pipeline."""


class RowError(PipelineError):
    """Raised for a row that cannot become a message."""


class RowsChangedError(PipelineError):
    """Raised when an attempt was given other rows than the attempt before it."""


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Hide the traceback of errors whose sentence is enough.

    A Python worker ends with the error that it reports, so the setting goes with it.
    """
    try:
        yield
    except PipelineError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
