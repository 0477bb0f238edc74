"""The statuses of errors over HTTP: a column for administration, and one for messages."""

import pytest

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.listeners.web import http_statuses
from bendybus.frontend.listeners.web.http_statuses import About

pytestmark = pytest.mark.requirement("R652")
# By error: what administration answers, and what messages do.
EXPECTED: list[tuple[BusError, int, int]] = [
    (errors.EntityNotFound("x"), 404, 410),
    (errors.EntityOrphaned("x"), 400, 410),
    (errors.EntityDisabled("x"), 400, 403),
    (errors.MessageNotFound("x"), 404, 404),
    (errors.MessageLockLost("x"), 410, 404),
    (errors.SessionLockLost("x"), 410, 404),
    (errors.MessageSizeExceeded("x"), 413, 403),
    (errors.QuotaExceeded("x"), 403, 403),
    (errors.InvalidArgument("x", "y"), 400, 400),
    (errors.InvalidOperation("x"), 400, 400),
    (errors.Unauthenticated("x"), 401, 401),
    (errors.Unauthorized("x"), 401, 401),
    (errors.ServerBusy("x"), 503, 503),
    (errors.PartitionUnavailable("x"), 503, 503),
    (errors.OutcomeUnknown("x"), 504, 504),
    (BusError("x"), 500, 500),
]


@pytest.mark.parametrize(
    ("error", "administration", "messages"), EXPECTED, ids=lambda each: type(each).__name__
)
def test_an_error_has_a_status_for_each(
    error: BusError, administration: int, messages: int
) -> None:
    assert http_statuses.of(error).status == administration
    assert http_statuses.of(error, About.MESSAGES).status == messages


def test_each_status_of_messages_has_a_sub_code_of_its_own_or_of_its_kind() -> None:
    found = http_statuses.OF_MESSAGES.values()

    assert all(each.sub_code // 100 == each.status for each in found)
