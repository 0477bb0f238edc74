"""The one table of errors for AMQP: domain error → condition, and status code of `$management`.

Names of Service Bus where it has one, since its SDKs decide by them whether to retry.
"""

from typing import Final, NamedTuple

from bendybus.amqp import performatives
from bendybus.domain import errors
from bendybus.domain.errors import BusError


class Condition(NamedTuple):
    """What a client is told."""

    symbol: str
    status: int


_BUSY: Final = Condition("com.microsoft:server-busy", 503)
_TIMEOUT: Final = Condition("com.microsoft:timeout", 408)
_NOT_ALLOWED: Final = Condition("amqp:not-allowed", 400)
_DISABLED: Final = Condition("com.microsoft:entity-disabled", 400)
_LIMIT: Final = Condition("amqp:resource-limit-exceeded", 403)
_PRECONDITION: Final = Condition("com.microsoft:precondition-failed", 412)

CONDITIONS: Final[dict[type[BusError], Condition]] = {
    # A defect of the bus; whatever else is wrong has a row of its own.
    errors.BusError: Condition("amqp:internal-error", 500),
    errors.RetryableError: _BUSY,
    # Not busy: the SDK for .NET waits 10 s after that. All SDKs repeat what timed out after their
    # usual pause, and by then the partition is often back.
    errors.PartitionUnavailable: _TIMEOUT,
    errors.DiskLow: _LIMIT,
    errors.ServerBusy: _BUSY,
    errors.ServiceTimeout: _TIMEOUT,
    errors.EntityDisabled: _DISABLED,
    errors.EntityDrained: _DISABLED,
    errors.EntityOrphaned: _DISABLED,
    errors.SessionCannotBeLocked: Condition("com.microsoft:session-cannot-be-locked", 410),
    errors.GenerationMismatch: _TIMEOUT,
    errors.OutcomeUnknown: _TIMEOUT,
    errors.InvalidArgument: Condition("com.microsoft:argument-error", 400),
    errors.InvalidOperation: _NOT_ALLOWED,
    errors.PartitioningImmutable: _NOT_ALLOWED,
    errors.ManagedByManifest: _NOT_ALLOWED,
    errors.RetainedData: _NOT_ALLOWED,
    errors.EntityNotFound: Condition("amqp:not-found", 404),
    errors.EntityAlreadyExists: Condition("com.microsoft:entity-already-exists", 409),
    errors.MessageNotFound: Condition("com.microsoft:message-not-found", 404),
    errors.MessageLockLost: Condition("com.microsoft:message-lock-lost", 410),
    errors.SessionLockLost: Condition("com.microsoft:session-lock-lost", 410),
    errors.DrainLeaseLost: _PRECONDITION,
    errors.ProducerFenced: _PRECONDITION,
    errors.MessageSizeExceeded: Condition("amqp:link:message-size-exceeded", 403),
    errors.QuotaExceeded: _LIMIT,
    errors.Unauthenticated: Condition("amqp:unauthorized-access", 401),
    errors.Unauthorized: Condition("amqp:unauthorized-access", 401),
}


def of(error: BusError, address: str = "") -> performatives.Error:
    """Return an error as AMQP has it. `address`: of the entity, as the client wrote it."""
    text = error.message
    if address and isinstance(error, errors.EntityNotFound):
        # SDKs tell a missing entity from a node that is missing for the moment by this sentence.
        below = f"/Rules/{error.metadata['rule']}" if "rule" in error.metadata else ""
        text = f"The messaging entity '{address}{below}' could not be found."
    return performatives.Error(_condition(error).symbol, text)


def status_of(error: BusError) -> int:
    """Return the status code of an error in a response of `$management`."""
    return _condition(error).status


def _condition(error: BusError) -> Condition:
    # A room may derive errors of its own: they are told as their base.
    return next(CONDITIONS[kind] for kind in type(error).__mro__ if kind in CONDITIONS)
