"""The one table of errors: domain error ↔ gRPC status code ↔ google.rpc.ErrorInfo.reason.

Servers use `unary` and `errors_as_status` (calls) or `to_error` (inside streams); clients call
`from_rpc_error` or `from_error`. Conventions: google.rpc details, `ErrorInfo.reason` is the
machine's contract.
"""

import functools
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.v1 import message_pb2

DOMAIN: Final = "bendybus.io"
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Any]])

CODES: Final[dict[type[BusError], grpc.StatusCode]] = {
    errors.BusError: grpc.StatusCode.INTERNAL,
    errors.RetryableError: grpc.StatusCode.UNAVAILABLE,
    errors.PartitionUnavailable: grpc.StatusCode.UNAVAILABLE,
    errors.DiskLow: grpc.StatusCode.UNAVAILABLE,
    errors.ServerBusy: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ServiceTimeout: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.EntityDisabled: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EntityOrphaned: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EntityDrained: grpc.StatusCode.FAILED_PRECONDITION,
    errors.GenerationMismatch: grpc.StatusCode.ABORTED,
    # gRPC: "may be returned even if the operation has completed successfully".
    errors.OutcomeUnknown: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidOperation: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PartitioningImmutable: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ManagedByManifest: grpc.StatusCode.FAILED_PRECONDITION,
    errors.RetainedData: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EntityNotFound: grpc.StatusCode.NOT_FOUND,
    errors.EntityAlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    errors.MessageNotFound: grpc.StatusCode.NOT_FOUND,
    errors.MessageLockLost: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SessionLockLost: grpc.StatusCode.FAILED_PRECONDITION,
    errors.SessionCannotBeLocked: grpc.StatusCode.FAILED_PRECONDITION,
    errors.DrainLeaseLost: grpc.StatusCode.ABORTED,
    errors.ProducerFenced: grpc.StatusCode.ABORTED,
    errors.MessageSizeExceeded: grpc.StatusCode.INVALID_ARGUMENT,
    errors.QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.Unauthenticated: grpc.StatusCode.UNAUTHENTICATED,
    errors.Unauthorized: grpc.StatusCode.PERMISSION_DENIED,
}
_OUTCOMES: Final = {
    errors.Outcome.NOT_DONE: message_pb2.OUTCOME_NOT_DONE,
    errors.Outcome.UNKNOWN: message_pb2.OUTCOME_UNKNOWN,
}
_BY_REASON: Final = {kind.reason: kind for kind in CODES}
# For statuses that no server of ours wrote: a proxy, a closed port, gRPC itself.
_BY_CODE: Final[dict[grpc.StatusCode, type[BusError]]] = {
    grpc.StatusCode.UNAVAILABLE: errors.RetryableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.ServiceTimeout,
    grpc.StatusCode.CANCELLED: errors.RetryableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.ServerBusy,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: errors.Unauthorized,
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidOperation,
}


# How gRPC begins when it refuses a request by its size.
_TOO_LARGE: Final = "Received message larger than max"


def to_error(error: BusError) -> message_pb2.Error:
    """Return the form that an error has inside streams and partial answers."""
    return message_pb2.Error(
        reason=error.reason,
        message=error.message,
        metadata=error.metadata,
        retry_after_ms=error.retry_after_ms,
        outcome=_OUTCOMES[error.outcome],
    )


def from_error(error: message_pb2.Error) -> BusError:
    """Return the domain error that `error` carries."""
    reason = error.reason
    if error.outcome == message_pb2.OUTCOME_UNKNOWN:
        # Whatever the reason: one that this version does not know must not read as "not done".
        reason = errors.OutcomeUnknown.reason
    return _make(reason, error.message, dict(error.metadata), error.retry_after_ms)


def to_status(error: BusError) -> status_pb2.Status:
    """Return the status of a unary call: ErrorInfo always, RetryInfo and BadRequest where due."""
    details: list[any_pb2.Any] = [
        _any(
            error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
        )
    ]
    if error.retry_after_ms:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        details.append(_any(error_details_pb2.RetryInfo(retry_delay=delay)))
    if isinstance(error, errors.InvalidArgument):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.field, description=error.message
        )
        details.append(_any(error_details_pb2.BadRequest(field_violations=[violation])))
    code = code_pb2.Code.Value(CODES[_BY_REASON[error.reason]].name)
    return status_pb2.Status(code=code, message=error.message, details=details)


def from_rpc_error(error: grpc.RpcError) -> BusError:
    """Return the domain error behind a failed call, whichever server or proxy made the status."""
    code: grpc.StatusCode = error.code()
    text = error.details() or code.name
    try:
        found = _detailed(error)
    except DecodeError:
        # The details are not ours; the code still holds.
        found = None
    kind = _BY_CODE.get(code, errors.BusError)
    if text.startswith(_TOO_LARGE):
        kind = errors.MessageSizeExceeded
    return found or kind(f"{text} ({code.name})")


def _detailed(error: grpc.RpcError) -> BusError | None:
    """Return the error in the details of a status; None if they hold none of ours."""
    status = _status_of(error)
    retry_after_ms, info = 0, None
    for detail in status.details if status is not None else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_ms = retry.retry_delay.ToMilliseconds()
    if status is None or info is None or info.domain != DOMAIN:
        return None
    return _make(info.reason, status.message, dict(info.metadata), retry_after_ms)


def _status_of(error: grpc.RpcError) -> status_pb2.Status | None:
    metadata: Iterable[tuple[str, bytes]] = error.trailing_metadata() or ()  # type: ignore[assignment]
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            return status_pb2.Status.FromString(value)
    return None


def _make(reason: str, message: str, metadata: dict[str, str], retry_after_ms: int) -> BusError:
    kind = _BY_REASON.get(reason, errors.BusError)
    if kind is errors.InvalidArgument:
        field = metadata.get("field", "request")
        return errors.InvalidArgument(field, message.removeprefix(f"{field}: "))
    return kind(message, retry_after_ms=retry_after_ms, metadata=metadata)


def _any(message: Message) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


def malformed(error: DecodeError) -> BusError:
    """Return the error for a frame that cannot be parsed."""
    return errors.InvalidArgument("frame", f"cannot be read: {error}.")


class errors_as_status:
    """Ends a call of a grpc.aio server with the status of the error that is raised within.

    A domain error, or a request that cannot be parsed:
        async with statuses.errors_as_status(context): …
    """

    def __init__(self, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
        self._context = context

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is None:
            return
        _clear(error)
        if isinstance(error, DecodeError):
            error = malformed(error)
        if isinstance(error, BusError):
            await abort(self._context, error)


def _clear(error: BaseException | None) -> None:
    """Let go of what the functions held that an error has ended.

    Such as a request, which would stay in memory until the search for garbage finds the error.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def unary(handler: Handler) -> Handler:
    """Decorate a handler of unary calls: a domain error that it raises becomes the status."""

    @functools.wraps(handler)
    async def handled(service: Any, request: Any, context: Any) -> Any:
        async with errors_as_status(context):
            return await handler(service, request, context)

    return handled  # type: ignore[return-value]


async def abort(context: "grpc.aio.ServicerContext[Any, Any]", error: BusError) -> None:
    """End a call with the status of `error`; never returns. Handlers raise instead, see `unary`."""
    await context.abort_with_status(rpc_status.to_status(to_status(error)))
