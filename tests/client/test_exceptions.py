"""The table from the bus's errors to the client's."""

from typing import Any

from bendybus.client import exceptions
from bendybus.domain import errors


def make(kind: type[errors.BusError]) -> errors.BusError:
    """Return an error of a kind."""
    if kind is errors.InvalidArgument:
        return errors.InvalidArgument("field", "is wrong.")
    return kind("sentence", metadata={"entity": "q"})


def test_every_error_of_the_bus_has_its_own_line_in_the_table() -> None:
    for kind in errors.all_errors():
        error = make(kind)

        for translate, code in (
            (exceptions.from_bus_error, "reason"),
            (exceptions.from_management_error, "error_code"),
        ):
            made: Any = translate(error)
            assert getattr(made, code) == kind.reason
            assert made.message == str(made) == error.message
            assert made.metadata == error.metadata
            assert made.__cause__ is error
        assert kind in exceptions._BY_ERROR


def test_what_the_client_retries_is_what_the_bus_says() -> None:
    for kind in errors.all_errors():
        if kind not in (errors.Unauthenticated, errors.Unauthorized):
            assert exceptions.from_bus_error(make(kind))._retryable == kind.retryable
