"""The one table of errors for HTTP: domain error → status and sub-code of the service.

SDKs decide by the status whether to retry, and by some sub-codes which error it is. Administration
and messages have a column each, since the service answers some errors differently: a missing entity
is 404 to administrators. To senders and receivers it is 410, and 404 is a missing lock or message.
Source: Service Bus, "Send message", "Unlock message".
"""

from enum import Enum
from typing import Final, NamedTuple

from bendybus.domain import errors
from bendybus.domain.errors import BusError


class About(Enum):
    """The subject of a request."""

    ADMINISTRATION = "administration"
    MESSAGES = "messages"


class Status(NamedTuple):
    """What a client is told."""

    status: int
    sub_code: int


_BAD: Final = Status(400, 40000)
_BUSY: Final = Status(503, 50301)
_UNKNOWN: Final = Status(504, 50400)
# Not known, or not allowed: the service answers both with 401.
_NOT_ALLOWED: Final = Status(401, 40100)
_UNDER_WAY: Final = Status(409, 40901)

STATUSES: Final[dict[type[BusError], Status]] = {
    # A defect of the bus; whatever else is wrong has a row of its own.
    errors.BusError: Status(500, 50000),
    errors.RetryableError: _BUSY,
    errors.PartitionUnavailable: _BUSY,
    errors.DiskLow: _BUSY,
    errors.ServerBusy: _BUSY,
    errors.ServiceTimeout: Status(408, 40800),
    errors.EntityDisabled: _BAD,
    errors.EntityDrained: _BAD,
    errors.EntityOrphaned: _BAD,
    errors.SessionCannotBeLocked: _UNDER_WAY,
    errors.GenerationMismatch: _UNDER_WAY,
    errors.OutcomeUnknown: _UNKNOWN,
    errors.InvalidArgument: _BAD,
    errors.InvalidOperation: _BAD,
    errors.PartitioningImmutable: _BAD,
    errors.ManagedByManifest: _BAD,
    errors.RetainedData: Status(409, 40900),
    errors.EntityNotFound: Status(404, 40400),
    errors.EntityAlreadyExists: Status(409, 40900),
    errors.MessageNotFound: Status(404, 40402),
    errors.MessageLockLost: Status(410, 41000),
    errors.SessionLockLost: Status(410, 41000),
    errors.DrainLeaseLost: Status(412, 41200),
    errors.ProducerFenced: Status(412, 41200),
    errors.MessageSizeExceeded: Status(413, 41300),
    errors.QuotaExceeded: Status(403, 40300),
    errors.Unauthenticated: _NOT_ALLOWED,
    errors.Unauthorized: _NOT_ALLOWED,
}
# Where messages have another one.
_GONE: Final = Status(410, 41000)
_NO_LOCK: Final = Status(404, 40402)
OF_MESSAGES: Final[dict[type[BusError], Status]] = {
    errors.EntityNotFound: _GONE,
    errors.EntityOrphaned: _GONE,
    errors.EntityDisabled: Status(403, 40301),
    errors.MessageLockLost: _NO_LOCK,
    errors.SessionLockLost: _NO_LOCK,
    errors.MessageSizeExceeded: Status(403, 40302),
}


def of(error: BusError, about: About = About.ADMINISTRATION) -> Status:
    """Return the status of an error; a room may derive errors, which are told as their base."""
    kind = next(kind for kind in type(error).__mro__ if kind in STATUSES)
    found = OF_MESSAGES.get(kind) if about is About.MESSAGES else None
    return found or STATUSES[kind]
