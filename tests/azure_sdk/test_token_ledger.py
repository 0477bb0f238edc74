"""What the ledger of `make azure-tokens` finds to be wrong."""

import pytest

from tests.azure_sdk.token_ledger import Ledger


def ledger() -> Ledger:
    """Return one in which all is as promised."""
    made = Ledger()
    made.sent("q", "q 1")
    made.sent("q", "q 2", due_s=100.0)
    made.sent("q", "q 3", due_s=900.0)
    made.was_cancelled("q", "q 3")
    for name in ("q 1", "q 2"):
        made.was_received(name, 100.0, "a")
        made.was_completed("q", name)
    return made


def test_nothing_is_wrong_where_each_message_was_completed_once() -> None:
    made = ledger()

    assert made.wrong({"q": 0}) == []
    assert made.missing("q") == set()
    assert made.figures() == "q: 2 acknowledged, 2 completed, 1 cancelled"


def test_what_is_not_as_promised_is_named() -> None:
    made = ledger()
    made.sent("q", "q 4")
    made.was_completed("q", "q 1")
    made.was_completed("q", "q 3")
    made.was_completed("q", "q 9")
    made.sent("q", "q 5", due_s=200.0)
    made.was_received("q 5", 150.0)
    made.was_completed("q", "q 5")
    made.was_received("q 1", 160.0, "a")
    made.compared("q", b"x", b"y")

    assert made.missing("q") == {"q 4"}
    assert made.wrong({"q": 3}) == [
        "error of q: reading: ValueError: b'y', and not b'x'",
        "q: 1 lost: ['q 4']",
        "q: 1 completed twice: ['q 1']",
        "q: 1 received although cancelled: ['q 3']",
        "q: 1 never sent: ['q 9']",
        "q: still counts 3 messages",
        "came before it was due: q 5",
        "a: 1 came after 2",
    ]


@pytest.mark.parametrize("completed", [True, False])
def test_a_message_whose_send_failed_may_come_and_need_not(completed: bool) -> None:
    made = Ledger()
    made.failed("q", "sending", TimeoutError("late"), "q 1")
    if completed:
        made.was_completed("q", "q 1")

    assert made.wrong({}) == ["error of q: sending: TimeoutError: late"]
