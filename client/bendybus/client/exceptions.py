"""What can go wrong, with the names of azure-servicebus, and what the bus's errors become.

    ServiceBusError
    ├── ServiceBusConnectionError          the connection broke or cannot be made
    ├── ServiceBusCommunicationError       the service could not answer
    │   └── PartitionUnavailableError      the one partition that must answer does not
    ├── ServiceBusAuthenticationError
    ├── ServiceBusAuthorizationError
    ├── OperationTimeoutError              the time was over first
    │   └── OutcomeUnknownError            it may be done, and repeating it may do it twice
    ├── MessageSizeExceededError           (also a ValueError)
    ├── MessageLockLostError
    ├── MessageNotFoundError
    ├── MessagingEntityNotFoundError
    ├── MessagingEntityDisabledError
    ├── MessagingEntityAlreadyExistsError
    ├── ServiceBusQuotaExceededError
    ├── ServiceBusServerBusyError
    ├── SessionLockLostError
    ├── SessionCannotBeLockedError
    ├── AutoLockRenewFailed
    ├── AutoLockRenewTimeout
    ├── InvalidArgumentError               (also a ValueError) `metadata["field"]` names the value
    ├── InvalidOperationError              the combination is not allowed
    ├── NotSupportedError                  (also a NotImplementedError) not in Bendybus yet
    └── HttpResponseError                  raised by administration clients
        ├── ResourceNotFoundError
        └── ResourceExistsError
    MessageAlreadySettled                  a ValueError: only the client raises it

The last three of administration stand where azure-servicebus raises classes of azure-core.
`reason` is the stable word of the wire, `metadata` holds facts for programs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError


class ServiceBusError(Exception):
    """Raised when the bus cannot do what was asked; base of all others."""

    _default: ClassVar[str] = "The bus could not do what was asked."
    _retryable: bool = False

    def __init__(self, message: str | bytes | None, *args: Any, **kwargs: Any) -> None:
        if isinstance(message, bytes):
            message = message.decode()
        self.message: str = message or self._default
        self.reason: str = kwargs.pop("reason", "")
        self.metadata: dict[str, str] = dict(kwargs.pop("metadata", None) or {})
        self.inner_exception: BaseException | None = kwargs.pop("error", None)
        # Of a call on several messages: each message that failed, with its own error.
        self.failures: Sequence[tuple[Any, ServiceBusError]] = kwargs.pop("failures", ())
        self._retryable = kwargs.pop("retryable", self._retryable)
        super().__init__(self.message, *args)


class _KeywordError(ServiceBusError):
    """Base of the errors that take their message by keyword only, as the original does."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kwargs.pop("message", None), **kwargs)


class ServiceBusConnectionError(_KeywordError):
    """Raised when the connection to the bus broke or could not be made."""

    _default = "The connection to the bus failed."
    _retryable = True


class ServiceBusAuthenticationError(_KeywordError):
    """Raised when the bus does not know the caller."""

    _default = "The bus does not accept these credentials."
    _retryable = True


class ServiceBusAuthorizationError(_KeywordError):
    """Raised when the caller may not do this."""

    _default = "The caller may not do this."
    _retryable = True


class OperationTimeoutError(_KeywordError):
    """Raised when the time given was over first; whether it was done is then unknown."""

    _default = "The time given was over before an answer came; the outcome is unknown."
    _retryable = True


class OutcomeUnknownError(OperationTimeoutError):
    """Raised when the bus may have done it: the client repeated it, and found out nothing in time.

    To send the message again may store it twice, unless the queue detects duplicates and the
    message keeps its MessageId. A kind of OperationTimeoutError, by which azure-servicebus reports
    the same thing.
    """

    _default = "It is not known whether it was done."
    _retryable = False


class MessageSizeExceededError(_KeywordError, ValueError):
    """Raised when a message, or a batch, is larger than allowed."""

    _default = "The message is larger than allowed."


class MessageAlreadySettled(ValueError):
    """Raised when a message is settled a second time."""

    def __init__(self, **kwargs: Any) -> None:
        action = kwargs.get("action", "settle")
        super().__init__(f"Cannot {action} the message: it is settled already.")
        self._retryable = False


class MessageLockLostError(_KeywordError):
    """Raised when locks are no longer held."""

    _default = "The lock of the message is lost: receive it again."


class SessionLockLostError(_KeywordError):
    """Raised when the lock of a session is no longer held."""

    _default = "The lock of the session is lost: accept the session again."


class MessageNotFoundError(_KeywordError):
    """Raised when no message has the number, or it is not in the state that is needed."""

    _default = "There is no such message in the state that is needed."


class MessagingEntityNotFoundError(_KeywordError):
    """Raised when there is no entity of that name."""

    _default = "There is no entity of that name."


class MessagingEntityDisabledError(_KeywordError):
    """Raised when the status of the entity forbids the operation."""

    _default = "The entity is disabled."
    _retryable = True


class MessagingEntityAlreadyExistsError(_KeywordError):
    """Raised when the name is taken."""

    _default = "The name is taken by another entity."


class ServiceBusQuotaExceededError(_KeywordError):
    """Raised when the entity holds all that it may hold."""

    _default = "The entity is full: receive or delete messages to make room."


class ServiceBusServerBusyError(_KeywordError):
    """Raised when a bound of the service is reached for the moment."""

    _default = "The bus is busy: try again in a while."
    _retryable = True


class ServiceBusCommunicationError(_KeywordError):
    """Raised when the bus is reached but cannot answer."""

    _default = "The bus could not answer."
    _retryable = True


class PartitionUnavailableError(ServiceBusCommunicationError):
    """Raised when the partition that alone can answer is unavailable."""

    _default = "The partition that must answer is unavailable."


class SessionCannotBeLockedError(_KeywordError):
    """Raised when another receiver has the session."""

    _default = "Another receiver has the session."
    _retryable = True


class AutoLockRenewFailed(ServiceBusError):
    """Raised when a lock could not be renewed in the background."""


class AutoLockRenewTimeout(ServiceBusError):
    """Raised when the time for which a lock was to be renewed is over."""


class InvalidArgumentError(_KeywordError, ValueError):
    """Raised when a value is not allowed; `metadata["field"]` names it."""

    _default = "A value is not allowed."


class InvalidOperationError(_KeywordError):
    """Raised when values contradict each other or the kind of entity forbids the operation."""

    _default = "The combination is not allowed."


class NotSupportedError(_KeywordError, NotImplementedError):
    """Raised by what azure-servicebus has and Bendybus does not have yet."""

    _default = "This is not supported by Bendybus yet."


class HttpResponseError(_KeywordError):
    """Raised by administration clients when the bus refuses."""

    _default = "The bus refused the administration call."


class ResourceNotFoundError(HttpResponseError):
    """Raised by administration clients when there is no entity of that name."""

    _default = "There is no entity of that name."


class ResourceExistsError(HttpResponseError):
    """Raised by administration clients when the name is taken."""

    _default = "The name is taken by another entity."


_BY_ERROR: Final[dict[type[BusError], type[ServiceBusError]]] = {
    errors.BusError: ServiceBusError,
    errors.RetryableError: ServiceBusConnectionError,
    errors.PartitionUnavailable: PartitionUnavailableError,
    errors.ServerBusy: ServiceBusServerBusyError,
    errors.ServiceTimeout: OperationTimeoutError,
    errors.OutcomeUnknown: OutcomeUnknownError,
    errors.EntityDisabled: MessagingEntityDisabledError,
    errors.GenerationMismatch: ServiceBusCommunicationError,
    errors.InvalidArgument: InvalidArgumentError,
    errors.InvalidOperation: InvalidOperationError,
    errors.PartitioningImmutable: InvalidOperationError,
    errors.ManagedByManifest: InvalidOperationError,
    errors.RetainedData: InvalidOperationError,
    errors.EntityOrphaned: MessagingEntityDisabledError,
    errors.EntityNotFound: MessagingEntityNotFoundError,
    errors.EntityAlreadyExists: MessagingEntityAlreadyExistsError,
    errors.MessageNotFound: MessageNotFoundError,
    errors.MessageLockLost: MessageLockLostError,
    errors.MessageSizeExceeded: MessageSizeExceededError,
    errors.QuotaExceeded: ServiceBusQuotaExceededError,
    errors.Unauthenticated: ServiceBusAuthenticationError,
    errors.Unauthorized: ServiceBusAuthorizationError,
}
_BY_ERROR_IN_MANAGEMENT: Final[dict[type[BusError], type[ServiceBusError]]] = {
    errors.EntityNotFound: ResourceNotFoundError,
    errors.EntityAlreadyExists: ResourceExistsError,
    errors.ServiceTimeout: OperationTimeoutError,
    errors.OutcomeUnknown: OutcomeUnknownError,
    errors.RetryableError: ServiceBusConnectionError,
    errors.PartitionUnavailable: PartitionUnavailableError,
    errors.Unauthenticated: ServiceBusAuthenticationError,
    errors.Unauthorized: ServiceBusAuthorizationError,
    errors.InvalidArgument: InvalidArgumentError,
}


def from_bus_error(error: BusError) -> ServiceBusError:
    """Return what a client of messages raises for `error`."""
    return _make(_BY_ERROR.get(type(error), ServiceBusError), error)


def from_management_error(error: BusError) -> ServiceBusError:
    """Return what an administration client raises for `error`."""
    return _make(_BY_ERROR_IN_MANAGEMENT.get(type(error), HttpResponseError), error)


def not_supported(what: str) -> NotSupportedError:
    """Return the refusal of something that comes later; `what` is a plural."""
    return NotSupportedError(message=f"{what} are not supported by Bendybus yet.")


def _make(kind: type[ServiceBusError], error: BusError) -> ServiceBusError:
    facts: Mapping[str, Any] = {
        "message": error.message,
        "reason": error.reason,
        "metadata": error.metadata,
        "error": error,
    }
    made = kind(**facts)
    if isinstance(error, errors.EntityOrphaned):
        # Unlike one that is disabled, it does not come back by waiting.
        made._retryable = False
    made.__cause__ = error
    return made
