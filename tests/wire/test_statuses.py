"""Errors and statuses: one table, complete both ways."""

from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.wire import statuses

KINDS = errors.all_errors()


def made(kind: type[BusError]) -> BusError:
    """Return an error with everything that it can carry."""
    if kind is errors.InvalidArgument:
        return errors.InvalidArgument("lockDuration", "is too long.")
    return kind("It went wrong.", retry_after_ms=1_500, metadata={"entity": "orders"})


class FakeRpcError(grpc.RpcError):
    """A failed call as a client sees it."""

    def __init__(
        self, code: grpc.StatusCode, text: str, metadata: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        super().__init__()
        self._code, self._text, self._metadata = code, text, metadata

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._text

    def trailing_metadata(self) -> Any:
        return self._metadata


def failed(error: BusError) -> FakeRpcError:
    status = statuses.to_status(error)
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    pair = ("grpc-status-details-bin", status.SerializeToString())
    return FakeRpcError(code, status.message, [("other", b""), pair])


def test_every_error_has_a_status_and_nothing_else_has() -> None:
    assert set(statuses.CODES) == set(KINDS)


def test_every_reason_is_one_errors_own() -> None:
    reasons = [kind.reason for kind in KINDS]

    assert len(set(reasons)) == len(reasons)
    assert all(reason == reason.upper() for reason in reasons)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_a_unary_call(kind: type[BusError]) -> None:
    error = made(kind)

    found = statuses.from_rpc_error(failed(error))

    assert type(found) is kind
    assert (found.message, found.metadata) == (error.message, error.metadata)
    assert found.retry_after_ms == error.retry_after_ms


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_a_stream(kind: type[BusError]) -> None:
    error = made(kind)

    found = statuses.from_error(statuses.to_error(error))

    assert type(found) is kind
    assert (found.message, found.metadata) == (error.message, error.metadata)


def test_an_unknown_reason_of_a_later_version_is_an_error_all_the_same() -> None:
    sent = statuses.to_error(made(errors.QuotaExceeded))
    sent.reason = "SOMETHING_NEW"

    assert type(statuses.from_error(sent)) is BusError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.RetryableError),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.ServiceTimeout),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ServerBusy),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.UNKNOWN, BusError),
    ],
)
def test_statuses_that_others_made_are_understood(
    code: grpc.StatusCode, kind: type[BusError]
) -> None:
    found = statuses.from_rpc_error(FakeRpcError(code, "a proxy says so"))

    assert type(found) is kind
    assert "a proxy says so" in found.message


def test_details_of_another_domain_are_not_taken_for_ours() -> None:
    error = made(errors.QuotaExceeded)
    status = statuses.to_status(error)
    info = status.details[0]
    info.value = info.value.replace(b"bendybus.io", b"example.org")
    pair = ("grpc-status-details-bin", status.SerializeToString())

    found = statuses.from_rpc_error(FakeRpcError(grpc.StatusCode.UNAVAILABLE, "x", [pair]))

    assert type(found) is errors.RetryableError
