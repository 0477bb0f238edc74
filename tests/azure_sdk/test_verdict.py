"""What is counted, and what fails the command."""

from tests.azure_sdk import verdict
from tests.azure_sdk.verdict import Result

KNOWN = verdict.exceptions(
    {
        "exception": [
            {"test": "test_a.py::*_admin", "outcome": "failed", "reason": "no administration"},
            {"test": "test_a.py::test_old", "outcome": "skipped", "reason": "pending"},
            {"test": "test_a.py::test_time", "outcome": "either", "reason": "a slow service"},
        ]
    }
)


def test_a_test_that_fails_or_is_skipped_needs_a_reason() -> None:
    found = [
        Result("test_a.py::test_new[pyamqp]", "failed", "AssertionError"),
        Result("test_a.py::test_other", "skipped", "hard to test"),
        Result("test_a.py::test_list_admin[pyamqp]", "failed", "AttributeError"),
        Result("test_a.py::test_old", "skipped", "pending"),
        Result("test_a.py::test_fine", "passed"),
    ]

    assert verdict.unexplained(found, KNOWN) == [
        "test_a.py::test_new[pyamqp]: failed, not passed: AssertionError",
        "test_a.py::test_other: skipped, not passed: hard to test",
    ]


def test_a_reason_for_a_test_that_passes_is_wrong() -> None:
    found = [Result("test_a.py::test_list_admin[pyamqp]", "passed")]

    assert verdict.unexplained(found, KNOWN) == [
        "test_a.py::test_list_admin[pyamqp]: passed, not failed: "
    ]


def test_a_test_of_times_may_pass_or_fail_but_not_be_left_out() -> None:
    found = [Result("test_a.py::test_time", outcome) for outcome in ("passed", "failed", "skipped")]

    assert verdict.unexplained(found, KNOWN) == ["test_a.py::test_time: skipped, not either: "]


def test_a_test_that_fails_in_one_phase_has_failed() -> None:
    found = verdict.results(
        [
            {"test": "test_a.py::test_x", "outcome": "failed", "why": "first", "took_s": 1.0},
            {"test": "test_a.py::test_x", "outcome": "passed", "why": "", "took_s": 0.0},
        ]
    )

    assert found == [Result("test_a.py::test_x", "failed", "first", 1.0)]


def test_the_table_counts_by_file_and_leaves_out_what_is_skipped() -> None:
    told = verdict.table(
        [
            Result("test_a.py::test_old", "skipped"),
            Result("test_a.py::test_x", "passed"),
            Result("test_b.py::test_y", "failed"),
        ],
        KNOWN,
    )

    assert told.splitlines() == [
        "FILE       PASSED  FAILED  SKIPPED",
        "test_a.py       1       0        1",
        "test_b.py       0       1        0",
        "all             1       1        1",
        "skipped: test_a.py::test_old: pending",
        "failed: test_b.py::test_y: UNEXPLAINED",
        "1 of 2 passed: 50.0 %",
    ]
