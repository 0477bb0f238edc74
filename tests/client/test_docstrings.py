"""Every parameter of a public call is in its docstring, and both surfaces say the same."""

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = ("", ".aio", ".management", ".aio.management")
# Values that document themselves: what they are given are their attributes.
_VALUES = ("Properties", "Filter", "Action", "Rule", "Details", "Session")
# They refuse everything: there is nothing to say of what they are given.
_REFUSING = "Not supported yet."
# Its callbacks run in threads here, and on the loop there.
_DIFFERENT = ("AutoLockRenewer", "AutoLockRenewer.close")
_UNSAID = {"self", "cls", "args", "kwargs", "exc_type", "exc", "traceback"}


def calls() -> Iterator[tuple[str, Any, str]]:
    """Yield each public call with its name and what documents it."""
    for suffix in MODULES:
        module = importlib.import_module(f"bendybus.client{suffix}")
        for name in getattr(module, "__all__", None) or dir(module):
            kind = getattr(module, name)
            if inspect.isfunction(kind):
                yield f"{suffix}.{name}", kind, kind.__doc__ or ""
            elif is_documented(kind):
                yield from members(f"{suffix}.{name}", kind)


def is_documented(kind: Any) -> bool:
    """Return whether a name is one of our classes that do something."""
    return (
        inspect.isclass(kind)
        and kind.__module__.startswith("bendybus")
        and not issubclass(kind, enum.Enum | Exception)
        and not kind.__name__.endswith(_VALUES)
    )


def members(name: str, kind: type) -> Iterator[tuple[str, Any, str]]:
    """Yield the constructor and the public methods of a class."""
    made = kind.__init__  # type: ignore[misc]  # read from a class
    if inspect.isfunction(made):
        yield name, made, f"{made.__doc__ or ''}\n{kind.__doc__ or ''}"
    for method, found in inspect.getmembers(kind):
        function = getattr(found, "__func__", found)
        if not method.startswith("_") and inspect.isfunction(function):
            yield f"{name}.{method}", function, function.__doc__ or ""


CALLS = {name: (call, said) for name, call, said in calls()}


@pytest.mark.parametrize("name", CALLS)
def test_every_parameter_is_in_the_docstring(name: str) -> None:
    call, said = CALLS[name]
    if _REFUSING in said:
        return

    missing = [
        parameter
        for parameter in inspect.signature(call).parameters
        if parameter not in _UNSAID and not re.search(rf"`{parameter}[`=]|\b{parameter}\b", said)
    ]

    assert not missing


@pytest.mark.parametrize(
    "name", [name for name in CALLS if name.startswith(".aio") and not name.endswith(_DIFFERENT)]
)
def test_both_surfaces_say_the_same(name: str) -> None:
    other = name.replace(".aio", "", 1)
    if other in CALLS:
        assert words(CALLS[name][1]) == words(CALLS[other][1])


def words(said: str) -> list[str]:
    """Return a docstring without line breaks and without what only one surface can say."""
    text = " ".join(said.split())
    for one, other in (("Tasks", "Threads"), ("tasks", "threads"), ("asynchronous", "synchronous")):
        text = text.replace(one, other)
    return text.split()
