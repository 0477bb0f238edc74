"""The exceptions of the client, with the names of azure-servicebus, by error of the bus.

    AzureError                             that of azure-core, where it is installed
    ├── ServiceBusError                    raised by senders and receivers, by bases as there
    └── HttpResponseError                  raised by administration clients, see
        └── …                              those of administration

    ServiceBusError
    ├── ServiceBusConnectionError          the connection broke or cannot be made
    ├── ServiceBusCommunicationError       the service could not answer
    │   └── PartitionUnavailableError      the partition that has to answer does not
    │       └── DiskLowError               no partition has room on its disk
    ├── ServiceBusAuthenticationError
    ├── ServiceBusAuthorizationError
    ├── OperationTimeoutError              the operation timed out before it was performed
    │   └── OutcomeUnknownError            it may have been done; a repeat may do it twice
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
    ├── MessagingEntityDrainedError        a data pipeline drains it: it alone removes messages
    ├── DrainLeaseLostError                the lease of a drain is over, or was taken over
    ├── ProducerFencedError                a later attempt of the same producer has begun
    ├── AutoLockRenewFailed
    ├── AutoLockRenewTimeout
    ├── InvalidRequestError                the bus rejects a value: `metadata["field"]` names it
    ├── InvalidOperationError              the combination is not allowed
    └── NotSupportedError                  (also a NotImplementedError) not in Bendybus yet
    ValueError                             what the client itself finds
    ├── InvalidArgumentError               `metadata["field"]` names the argument
    └── MessageAlreadySettled

`reason` is the stable code of the contract, `metadata` holds details for programs.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final
from xml.sax import saxutils

from bendybus.client import azure_core
from bendybus.client.azure_core import AzureError as AzureError
from bendybus.domain import errors
from bendybus.domain.errors import BusError

if TYPE_CHECKING:
    from bendybus.client.messages.received_message import ServiceBusReceivedMessage


class ServiceBusError(AzureError):
    """Raised when the bus rejects an operation or cannot perform it; base of all others."""

    _default: ClassVar[str] = "The operation failed."
    _retryable: bool = False

    def __init__(self, message: str | bytes | None, *args: Any, **kwargs: Any) -> None:
        if isinstance(message, bytes):
            message = message.decode()
        self.reason: str = kwargs.pop("reason", "")
        self.metadata: dict[str, str] = dict(kwargs.pop("metadata", None) or {})
        # Of an operation on several messages: each message that failed, with its error.
        self.failures: Sequence[tuple[ServiceBusReceivedMessage, ServiceBusError]] = kwargs.pop(
            "failures", ()
        )
        self._retryable = kwargs.pop("retryable", self._retryable)
        super().__init__(message or self._default, *args, **kwargs)

    __reduce__ = azure_core.reduced


class _KeywordError(ServiceBusError):
    """Base of the errors that take their message by keyword only, as in azure-servicebus."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(kwargs.pop("message", None), **kwargs)


class ServiceBusConnectionError(_KeywordError):
    """Raised when the connection to the bus broke or could not be made."""

    _default = "The connection to the bus failed."
    _retryable = True


class ServiceBusAuthenticationError(_KeywordError):
    """Raised when the credentials are missing, invalid or expired."""

    _default = "The bus rejected the credentials."
    _retryable = True


class ServiceBusAuthorizationError(_KeywordError):
    """Raised when the caller lacks the right that the operation needs."""

    _default = "The caller is not authorized for this operation."
    _retryable = True


class OperationTimeoutError(_KeywordError):
    """Raised when an operation timed out; unless it is OutcomeUnknownError, it was not done."""

    _default = "The operation timed out."
    _retryable = True


class OutcomeUnknownError(OperationTimeoutError):
    """Raised when an operation may have been performed, and repeats did not find out in time.

    Sending the message again may store it twice, unless the queue detects duplicates and the
    message keeps its MessageId. A subclass of OperationTimeoutError, which azure-servicebus raises
    in this case.
    """

    _default = "The outcome of the operation is unknown."
    _retryable = False


class MessageSizeExceededError(_KeywordError, ValueError):
    """Raised when a message, or a batch, is larger than allowed."""

    _default = "The message is larger than allowed."


class MessageAlreadySettled(ValueError):
    """Raised when a message is settled a second time."""

    def __init__(self, **kwargs: Any) -> None:
        action = kwargs.get("action", "settle")
        super().__init__(f"Cannot {action} the message: it is already settled.")
        self._retryable = False

    __reduce__ = azure_core.reduced


class MessageLockLostError(_KeywordError):
    """Raised when the lock of a message is lost."""

    _default = "The lock of the message is lost: receive it again."


class SessionLockLostError(_KeywordError):
    """Raised when the lock of a session is lost."""

    _default = "The lock of the session is lost: accept the session again."


class MessageNotFoundError(_KeywordError):
    """Raised when no message has the sequence number, or it is not in the required state."""

    _default = "No message has this sequence number and the required state."


class MessagingEntityNotFoundError(_KeywordError):
    """Raised when the entity does not exist."""

    _default = "The entity does not exist."


class MessagingEntityDisabledError(_KeywordError):
    """Raised when the status of the entity forbids the operation."""

    _default = "The entity is disabled."
    _retryable = True


class MessagingEntityAlreadyExistsError(_KeywordError):
    """Raised when an entity of this name already exists."""

    _default = "An entity of this name already exists."


class ServiceBusQuotaExceededError(_KeywordError):
    """Raised when the entity has reached its maximum size."""

    _default = "The entity is full: receive or delete messages to make room."


class ServiceBusServerBusyError(_KeywordError):
    """Raised when the bus throttles: a queue of requests is full."""

    _default = "The bus is busy: retry later."
    _retryable = True


class ServiceBusCommunicationError(_KeywordError):
    """Raised when the bus is connected but cannot answer."""

    _default = "The bus could not answer."
    _retryable = True


class PartitionUnavailableError(ServiceBusCommunicationError):
    """Raised when the only partition that can answer is unavailable."""

    _default = "The partition that has to answer is unavailable."


class DiskLowError(PartitionUnavailableError):
    """Raised when every partition that could store a message has too little room on its disk.

    `send_messages` does not retry it.
    """

    _default = "The bus has too little room on its disks."


class SessionCannotBeLockedError(_KeywordError):
    """Raised when another receiver has the session."""

    _default = "Another receiver has the session."
    _retryable = True


class AutoLockRenewFailed(ServiceBusError):
    """Raised when a lock could not be renewed in the background."""


class AutoLockRenewTimeout(ServiceBusError):
    """Raised when the maximum duration of lock renewal has passed."""


class MessagingEntityDrainedError(_KeywordError):
    """Raised when a data pipeline drains the entity: its lease forbids the operation."""

    _default = "A data pipeline drains the entity."
    _retryable = True


class DrainLeaseLostError(_KeywordError):
    """Raised when the lease of a drain is over, or a later drain took it over."""

    _default = "The lease of the drain is lost."


class ProducerFencedError(_KeywordError):
    """Raised when a later attempt of the same producer has begun."""

    _default = "A later attempt of this producer has begun."


class InvalidArgumentError(ValueError):
    """Raised when the client finds a value invalid; `metadata["field"]` names it."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.reason = errors.InvalidArgument.reason
        self.metadata = {"field": field}

    __reduce__ = azure_core.reduced


class InvalidRequestError(_KeywordError):
    """Raised when the bus rejects a value; `metadata["field"]` names it."""

    _default = "A value is invalid."


class InvalidOperationError(_KeywordError):
    """Raised when values contradict each other or the kind of entity forbids the operation."""

    _default = "The combination is not allowed."


class NotSupportedError(_KeywordError, NotImplementedError):
    """Raised by operations of azure-servicebus that Bendybus does not support yet."""

    _default = "This is not supported by Bendybus yet."


_BY_ERROR: Final[dict[type[BusError], type[ServiceBusError]]] = {
    errors.BusError: ServiceBusError,
    errors.RetryableError: ServiceBusConnectionError,
    errors.PartitionUnavailable: PartitionUnavailableError,
    errors.DiskLow: DiskLowError,
    errors.ServerBusy: ServiceBusServerBusyError,
    errors.ServiceTimeout: OperationTimeoutError,
    errors.OutcomeUnknown: OutcomeUnknownError,
    errors.EntityDisabled: MessagingEntityDisabledError,
    errors.EntityDrained: MessagingEntityDrainedError,
    errors.DrainLeaseLost: DrainLeaseLostError,
    errors.ProducerFenced: ProducerFencedError,
    errors.GenerationMismatch: ServiceBusCommunicationError,
    errors.InvalidArgument: InvalidRequestError,
    errors.InvalidOperation: InvalidOperationError,
    errors.PartitioningImmutable: InvalidOperationError,
    errors.ManagedByManifest: InvalidOperationError,
    errors.RetainedData: InvalidOperationError,
    errors.EntityOrphaned: MessagingEntityDisabledError,
    errors.EntityNotFound: MessagingEntityNotFoundError,
    errors.EntityAlreadyExists: MessagingEntityAlreadyExistsError,
    errors.MessageNotFound: MessageNotFoundError,
    errors.MessageLockLost: MessageLockLostError,
    errors.SessionLockLost: SessionLockLostError,
    errors.SessionCannotBeLocked: SessionCannotBeLockedError,
    errors.MessageSizeExceeded: MessageSizeExceededError,
    errors.QuotaExceeded: ServiceBusQuotaExceededError,
    errors.Unauthenticated: ServiceBusAuthenticationError,
    errors.Unauthorized: ServiceBusAuthorizationError,
}


def from_bus_error(error: BusError) -> ServiceBusError:
    """Return what senders and receivers raise for `error`."""
    made = _BY_ERROR.get(type(error), ServiceBusError)(
        message=error.message, reason=error.reason, metadata=error.metadata, error=error
    )
    if isinstance(error, errors.EntityOrphaned):
        # Unlike a disabled entity, it does not become available again by itself.
        made._retryable = False
    made.__cause__ = error
    return made


def not_supported(what: str) -> NotSupportedError:
    """Return the error for a feature that is not supported yet; `what` is a plural."""
    return NotSupportedError(message=f"{what} are not supported by Bendybus yet.")


class _OfBus:
    """What the exceptions have beyond those of azure-core."""

    message: str
    error_code: str = ""
    metadata: Mapping[str, str] = {}
    __reduce__ = azure_core.reduced

    def __str__(self) -> str:
        # azure-core adds the response's text, which says the same again.
        return self.message


class HttpResponseError(_OfBus, azure_core.HttpResponseError):
    """Raised when the bus rejects a request."""


class ResourceNotFoundError(HttpResponseError, azure_core.ResourceNotFoundError):
    """Raised when the entity does not exist."""


class ResourceExistsError(HttpResponseError, azure_core.ResourceExistsError):
    """Raised when an entity of this name already exists."""


class ClientAuthenticationError(HttpResponseError, azure_core.ClientAuthenticationError):
    """Raised when the bus does not know the caller, or the caller lacks a right."""


class ServiceRequestError(_OfBus, azure_core.ServiceRequestError):
    """Raised when no bus answers; nothing was done."""


class ServiceResponseError(_OfBus, azure_core.ServiceResponseError):
    """Raised when the response was lost: the request may have been performed."""


class ServiceResponseTimeoutError(ServiceResponseError, azure_core.ServiceResponseTimeoutError):
    """Raised when a request was not performed in time."""


class ManagementResponse:
    """The response of an HttpResponseError, with the attributes of an HTTP response.

    `text()` is what the service writes: `<Error><Code>…</Code><Detail>…</Detail></Error>`.
    """

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        self.status_code = int(status)
        self.reason = status.phrase
        self.content_type = "application/xml"
        self.headers = {"content-type": self.content_type}
        self._detail = detail

    def text(self, encoding: str | None = None) -> str:
        """Return the body; `encoding` has no effect."""
        detail = saxutils.escape(self._detail)
        return f"<Error><Code>{self.status_code}</Code><Detail>{detail}</Detail></Error>"

    def __repr__(self) -> str:
        return f"<ManagementResponse: {self.status_code} {self.reason}>"


class ServiceBusManagementError:
    """The `model` of an HttpResponseError that has no class of its own: status and sentence."""

    def __init__(self, *, code: int, detail: str) -> None:
        self.code = code
        self.detail = detail


_STATUSES: Final[dict[type[BusError], HTTPStatus]] = {
    errors.InvalidArgument: HTTPStatus.BAD_REQUEST,
    errors.InvalidOperation: HTTPStatus.BAD_REQUEST,
    errors.PartitioningImmutable: HTTPStatus.BAD_REQUEST,
    errors.MessageSizeExceeded: HTTPStatus.BAD_REQUEST,
    errors.EntityDisabled: HTTPStatus.BAD_REQUEST,
    errors.EntityDrained: HTTPStatus.BAD_REQUEST,
    errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    errors.Unauthorized: HTTPStatus.UNAUTHORIZED,
    errors.QuotaExceeded: HTTPStatus.FORBIDDEN,
    errors.ManagedByManifest: HTTPStatus.FORBIDDEN,
    errors.RetainedData: HTTPStatus.FORBIDDEN,
    errors.EntityOrphaned: HTTPStatus.FORBIDDEN,
    errors.EntityNotFound: HTTPStatus.NOT_FOUND,
    errors.EntityAlreadyExists: HTTPStatus.CONFLICT,
    errors.GenerationMismatch: HTTPStatus.PRECONDITION_FAILED,
    errors.PartitionUnavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.DiskLow: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ServerBusy: HTTPStatus.SERVICE_UNAVAILABLE,
}
_BY_STATUS: Final[dict[HTTPStatus, type[HttpResponseError]]] = {
    HTTPStatus.UNAUTHORIZED: ClientAuthenticationError,
    HTTPStatus.NOT_FOUND: ResourceNotFoundError,
    HTTPStatus.CONFLICT: ResourceExistsError,
}
_WITHOUT_RESPONSE: Final[dict[type[BusError], Any]] = {
    errors.RetryableError: ServiceRequestError,
    errors.ServiceTimeout: ServiceResponseTimeoutError,
    errors.OutcomeUnknown: ServiceResponseError,
}


def from_management_error(error: BusError) -> Any:
    """Return what an administration client raises for `error`."""
    kind = _WITHOUT_RESPONSE.get(type(error))
    made = kind(error.message, error=error) if kind else _rejected(error)
    made.error_code = error.reason
    made.metadata = dict(error.metadata)
    made.__cause__ = error
    return made


def _rejected(error: BusError) -> HttpResponseError:
    status = _STATUSES.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)
    kind = _BY_STATUS.get(status)
    # As in azure-servicebus: classes of their own come without a model.
    model = None if kind else ServiceBusManagementError(code=int(status), detail=error.message)
    return (kind or HttpResponseError)(
        error.message, ManagementResponse(status, error.message), model=model, error=error
    )
