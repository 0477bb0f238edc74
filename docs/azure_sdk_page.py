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
_ERRORS: Final = """\
## Errors
What a program sees, from a run on a bus with TLS: class and reason of the error, how often the bus
refused the request, if it counts that for the queue, and after how many seconds the program has the
error. The programs let their SDK try again twice, after 0.2 s, and wait 10 s for a try (Java 20 s,
Python 2 s for a session, Go as long as the bus); what is a matter of seconds here takes minutes
with the SDKs' own settings. `make test` checks class and reason for Python, `make sdks` for the
others.

The SDK for Python has no reasons: here it is the condition in the text of its error.
"""
_TOKENS: Final = """\
## Tokens that expire
`make azure-tokens` runs Python, `make sdk-tokens` the others, for ten minutes with tokens of 90 s
that the program signs when its SDK asks for one. With the others the front end is replaced and a
partition is killed in the middle. Nothing that was acknowledged is lost, and what is held is
completed after that.

| SDK | with tokens of 90 s |
|---|---|
| Python | renews in the last tenth of a token's lifetime: no errors |
| Java | renews in the last tenth of a token's lifetime |
| JavaScript | renews two minutes before the end, and a shorter token again and again: its \
credential must tell an end that is two minutes later |
| Go | renews after two minutes at the earliest: when a token ends, calls fail as unauthorized \
until the program opens its sender or receiver again |

"""
_VALUES: Final = """\
## Types of AMQP
An application property of each type, and a list, a map and an array as a body, as programs receive
them: a type of the language, and the value. The table comes from a run, and `make sdks` checks it.
The bus stores and delivers every type as it came. *no message*: the SDK cannot decode the value
and gives the program nothing; the message is locked until its lock ends, comes again, and is dead-
lettered after `maxDeliveryCount`. In receive-and-delete such a message is lost to the program:
Python, Go and .NET programs should use peek-lock where other clients send decimals, and Python and
Go programs where they send characters.
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
    parts += [_ERRORS, *_errors(sdks), _VALUES, *_values(), _TOKENS, _EXCEPTIONS]
    for each in _read("azure_sdk/exceptions.toml")["exception"]:
        parts.append(f"| `{each['test']}` | {each['outcome']} | {each['reason']} |")
    return "\n".join(parts) + "\n"


def _errors(sdks: list[str]) -> list[str]:
    """Return a table of errors."""
    parts = [
        f"| what fails | {' | '.join(_SDKS[each] for each in sdks)} |",
        f"|---|{'---|' * len(sdks)}",
    ]
    for row in _read("azure_sdk/errors.toml").values():
        seen = (_seen(row, each) for each in sdks)
        parts.append(f"| {row['title']} | {' | '.join(seen)} |")
    return [*parts, ""]


def _values() -> list[str]:
    """Return a table of the types of AMQP."""
    sdks = {**_SDKS, "dotnet": ".NET"}
    parts = [f"| type | {' | '.join(sdks.values())} |", f"|---|{'---|' * len(sdks)}"]
    for kind, row in _read("azure_sdk/values.toml").items():
        shown = (each if (each := row[sdk]) == "no message" else f"`{each}`" for sdk in sdks)
        parts.append(f"| {kind} | {' | '.join(shown)} |")
    return [*parts, ""]


def _seen(row: dict[str, Any], sdk: str) -> str:
    if sdk in row.get("without", {}):
        return f"no: {row['without'][sdk]}"
    found = row[sdk]
    reason = f" `{found['reason']}`" if found["reason"] else ""
    tries = f", refused {found['tries']} times" if found["tries"] > 1 else ""
    return f"`{found['class']}`{reason}{tries}, {found['seconds']:.1f} s"


def _line(row: dict[str, Any], sdks: list[str]) -> str:
    without = row.get("without", {})
    done = (f"no: {without[each]}" if each in without else "yes" for each in sdks)
    return f"| {' | '.join((row['title'], _ON[row['on']], *done))} |"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_TESTS / name).read_text(encoding="utf-8"))
