"""The reference page of official SDKs: each operation that a test does, and what does not pass."""

import tomllib
from pathlib import Path
from typing import Any, Final

_TESTS: Final = Path(__file__).parents[1] / "tests"
_HEAD: Final = """\
# Official SDKs, operation by operation
Each of these is done with the SDK as it is published, on queues and topics that are not partitioned
and on ones of 16 partitions, over TLS, with one policy that may only send, one that may only
listen and one that may only manage. After each, the counts are read over gRPC. `make test` does
those of Python, with the synchronous client and with that of `azure.servicebus.aio`; `make sdks`
those of the others.
[How to use it](../how-to/use-the-azure-sdk.md).
"""
_EXCEPTIONS: Final = """\
## The tests of the SDK for Python
`make azure-tests` runs the tests that come with the SDK. These do not pass, and why:

| test | outcome | reason |
|---|---|---|"""
_ON: Final = {
    "queue": "queue",
    "sessions": "queue with sessions",
    "topic": "topic",
    "topic-sessions": "topic, subscription with sessions",
}
_SDKS: Final = {"python": "Python", "javascript": "JavaScript", "java": "Java", "go": "Go"}


def page() -> str:
    """Return the page."""
    table = _read("azure_sdk/operations.toml")
    sdks = [each for each in _SDKS if each == "python" or (_TESTS / "sdks" / each).is_dir()]
    head = " | ".join(("operation", "on a", *(_SDKS[each] for each in sdks)))
    parts = [_HEAD]
    for area in dict.fromkeys(row["area"] for row in table.values()):
        parts.append(f"## {area}\n| {head} |\n|---|---|{'---|' * len(sdks)}")
        parts += [_line(row, sdks) for row in table.values() if row["area"] == area]
        parts.append("")
    parts.append(_EXCEPTIONS)
    for each in _read("azure_sdk/exceptions.toml")["exception"]:
        parts.append(f"| `{each['test']}` | {each['outcome']} | {each['reason']} |")
    return "\n".join(parts) + "\n"


def _line(row: dict[str, Any], sdks: list[str]) -> str:
    without = row.get("without", {})
    done = (f"no: {without[each]}" if each in without else "yes" for each in sdks)
    return f"| {' | '.join((row['title'], _ON[row['on']], *done))} |"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_TESTS / name).read_text(encoding="utf-8"))
