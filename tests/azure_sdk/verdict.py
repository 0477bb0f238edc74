"""Compares the results of the tests with those that are expected to fail or be skipped. Pure.

`exceptions.toml` has a reason for each test that is not expected to pass. A test that fails or is
skipped without a reason is reported, and so is a reason whose test passes. One whose outcome is
`either` may pass or fail: it compares times of the service.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

EITHER: Final = "either"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a test."""

    test: str
    outcome: str
    why: str = ""
    took_s: float = 0.0

    @property
    def file(self) -> str:
        """The file of the test."""
        return self.test.partition("::")[0]


@dataclass(frozen=True, slots=True)
class Exception_:
    """A test, or a pattern of several, that fails or is skipped, and why."""

    test: str
    outcome: str
    reason: str

    def covers(self, result: Result) -> bool:
        """Whether it is about that test."""
        return fnmatch.fnmatchcase(_plain(result.test), self.test)


def results(lines: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Return one result per test: the worst of its phases."""
    found: dict[str, Result] = {}
    for line in lines:
        result = Result(**line)
        known = found.get(result.test)
        if known is None or known.outcome != "failed":
            found[result.test] = result
    return sorted(found.values(), key=lambda each: each.test)


def exceptions(table: Mapping[str, Any]) -> list[Exception_]:
    """Return the exceptions of the file."""
    return [Exception_(**entry) for entry in table.get("exception", [])]


def unexplained(found: Sequence[Result], known: Sequence[Exception_]) -> list[str]:
    """Return a line for each test whose outcome is not the one that is expected."""
    wrong = []
    for result in found:
        excuse = next((each for each in known if each.covers(result)), None)
        expected = "passed" if excuse is None else excuse.outcome
        if expected == EITHER and result.outcome != "skipped":
            continue
        if result.outcome != expected:
            wrong.append(f"{result.test}: {result.outcome}, not {expected}: {result.why}")
    return wrong


def table(found: Sequence[Result], known: Sequence[Exception_]) -> str:
    """Return counts by file, then each test that did not pass, with its reason."""
    rows = [("FILE", "PASSED", "FAILED", "SKIPPED")]
    for file in sorted({each.file for each in found}):
        rows.append((file, *_counts([each for each in found if each.file == file])))
    rows.append(("all", *_counts(found)))
    width = max(len(row[0]) for row in rows)
    lines = [f"{row[0]:{width}}  {row[1]:>6}  {row[2]:>6}  {row[3]:>7}" for row in rows]
    for result in found:
        if result.outcome != "passed":
            excuse = next((each.reason for each in known if each.covers(result)), "")
            lines.append(f"{result.outcome}: {result.test}: {excuse or 'UNEXPLAINED'}")
    needed = len(found) - sum(each.outcome == "skipped" for each in found)
    passed = sum(each.outcome == "passed" for each in found)
    lines.append(f"{passed} of {needed} passed: {100 * passed / max(1, needed):.1f} %")
    return "\n".join(lines)


def _counts(found: Sequence[Result]) -> tuple[str, str, str]:
    count = Counter(each.outcome for each in found)
    return str(count["passed"]), str(count["failed"]), str(count["skipped"])


def _plain(test: str) -> str:
    """Return the id of a test without its parameters: patterns have brackets of their own."""
    return test.partition("[")[0]
