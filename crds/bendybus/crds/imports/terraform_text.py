"""Texts in configuration of Terraform: literal ones, and those with expressions. Pure.

Only configuration has expressions, `${…}` and `%{…}`, and writes the same as text as `$${` and
`%%{`. In a plan and in a state every text is literal.
"""

import re
from typing import Any, Final

_EXPRESSION: Final = re.compile(r"(?<!\$)\$\{|(?<!%)%\{")


class Expression(str):
    """A text of configuration with an expression in it, as it is written."""

    __slots__ = ()


def read(value: Any) -> Any:
    """Return a value of configuration with its texts as they are meant: literal, or expressions."""
    if isinstance(value, dict):
        return {literal(name): read(each) for name, each in value.items()}
    if isinstance(value, list):
        return [read(each) for each in value]
    if isinstance(value, str):
        return Expression(value) if _EXPRESSION.search(value) else literal(value)
    return value


def literal(text: str) -> str:
    """Return a text without the escapes of configuration."""
    return text.replace("$${", "${").replace("%%{", "%{")
