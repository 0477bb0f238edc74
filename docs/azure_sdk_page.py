"""The reference page of official SDKs: each operation that a test does, and what does not pass."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TESTS: Final = Path(__file__).parents[1] / "tests/azure_sdk"
_HEAD: Final = """\
# Official SDKs, operation by operation
`make test` runs each of these with `azure-servicebus` for Python as published: with the synchronous
client and with `azure.servicebus.aio`, on entities without partitions and with 16, over TLS, with
one policy that may only send and one that may only listen. After each operation the test compares
the entity's message counts, read over gRPC.
See also: [how to use the SDK](../how-to/use-the-azure-sdk.md).
"""
_EXCEPTIONS: Final = """\
## The SDK's own tests
`make azure-tests` runs the tests that come with the SDK. Those that do not pass:

| test | outcome | reason |
|---|---|---|"""
_KINDS: Final = {
    "QUEUE": "queue",
    "SESSIONS": "queue with sessions",
    "TOPIC": "topic",
    "TOPIC_SESSIONS": "topic, subscription with sessions",
}


def page() -> str:
    """Return the page."""
    rows = list(_operations())
    parts = [_HEAD]
    for area in dict.fromkeys(area for area, _, _ in rows):
        parts.append(f"## {area}\n| operation | on a |\n|---|---|")
        parts += [f"| {title} | {kind} |" for of, title, kind in rows if of == area]
        parts.append("")
    known = tomllib.loads((_TESTS / "exceptions.toml").read_text(encoding="utf-8"))["exception"]
    parts.append(_EXCEPTIONS)
    parts += [f"| `{each['test']}` | {each['outcome']} | {each['reason']} |" for each in known]
    return "\n".join(parts) + "\n"


def _operations() -> Iterator[tuple[str, str, str]]:
    # Read, not imported: the SDK is no requirement of the documentation.
    for name in ("sending", "receiving", "sessions", "topics", "messages"):
        module = ast.parse((_TESTS / f"operations/{name}.py").read_text(encoding="utf-8"))
        yield from _of_module(module.body)


def _of_module(body: list[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    areas: dict[str, str] = {}
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                areas[name] = text
            case ast.FunctionDef(
                decorator_list=[
                    ast.Call(
                        func=ast.Name(id="operation"),
                        args=[ast.Name(id=area), ast.Constant(value=str(title)), *kind],
                    )
                ]
            ):
                of = kind[0].attr if kind and isinstance(kind[0], ast.Attribute) else "QUEUE"
                yield areas[area], title, _KINDS[of]
