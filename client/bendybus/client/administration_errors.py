"""The exceptions of administration clients: those of azure-core, as azure-servicebus raises them.

    AzureError
    ├── HttpResponseError                  the bus rejects a request: `status_code`
    │   ├── ResourceNotFoundError          404
    │   ├── ResourceExistsError            409
    │   └── ClientAuthenticationError      401
    ├── ServiceRequestError                no bus answers
    └── ServiceResponseError               it may have been done: the response is missing
        └── ServiceResponseTimeoutError    it was not done in time

None is a ServiceBusError. Each class here derives from azure-core's of its name, so that either
name catches it, and a pickled one can be read where azure-core is not installed. Two attributes are
extras: `error_code` is the stable code of the contract, `metadata` has details for programs.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from xml.sax import saxutils

from bendybus.client import azure_core
from bendybus.domain import errors
from bendybus.domain.errors import BusError


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
