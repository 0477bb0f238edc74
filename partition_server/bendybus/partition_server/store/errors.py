"""What can go wrong between a partition and its file.

    Exception
    └── StoreError
        ├── FileRefused   the file belongs to something else, or is gone, or is in use
        ├── StoreFull     no room for this transaction; the next may fit
        ├── Unwritable    this transaction has a value that no file can hold; a bug
        └── StoreFailed   the file can no longer be trusted; reopen it
            └── NotCommitted   … and it failed before COMMIT: nothing of the transaction is stored

They never reach a client: the runner answers with domain errors.
"""


class StoreError(Exception):
    """Raised when a partition's file cannot do what was asked; base of the others."""


class FileRefused(StoreError):
    """Raised when a file is not the one that this server was started for."""


class StoreFull(StoreError):
    """Raised when the disk or the file has no room for a transaction."""


class Unwritable(StoreError):
    """Raised by a commit of what cannot be written; nothing is stored; the store goes on."""


class StoreFailed(StoreError):
    """Raised when reading or writing failed in a way that only reopening the file can repair."""


class NotCommitted(StoreFailed):
    """Raised by a commit that failed before COMMIT was executed."""
