"""The expressions in templates of Azure Resource Manager: text → syntax. Pure.

    [concat(parameters('prefix'), '-queue')]        a text that is an expression
    [[not one]                                      a text that begins with a bracket

    expression = primary { "." name | "[" expression "]" }
    primary    = 'text' | number | name [ "." name ] "(" [ expression { "," expression } ] ")"

Source: "Syntax and expressions in Azure Resource Manager templates".
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from bendybus.domain.errors import InvalidArgument

# As in Azure.
CHARS_MAX: Final = 24_576
# Brackets within brackets. People write five.
DEPTH_MAX: Final = 50
_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<number>-?[0-9]{1,19}(?![0-9.]))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>[().,\[\]]))"
)
_SPACE: Final = re.compile(r"\s*")


class TemplateError(InvalidArgument):
    """Raised for what is wrong with an expression. Its sentence goes on behind a place."""

    def __init__(self, sentence: str) -> None:
        super().__init__("expression", sentence)
        self.sentence = sentence
        # From the value that was evaluated to what is wrong in it: names and indexes.
        self.steps: list[str | int] = []


@dataclass(frozen=True, slots=True)
class Literal:
    """A text or a number."""

    value: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments; its name in lower case, and as it is written."""

    name: str
    written: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object, or an item of an array."""

    of: "Expression"
    key: "Expression"


Expression = Literal | Call | Member


def is_expression(text: str) -> bool:
    """Whether a text of a template is an expression."""
    return text.startswith("[") and text.endswith("]") and not text.startswith("[[")


def plain(text: str) -> str:
    """Return a text that is no expression, as it is meant."""
    return text[1:] if text.startswith("[[") and text.endswith("]") else text


def parse(text: str) -> Expression:
    """Return the syntax of an expression, which has its outer brackets. Raises TemplateError."""
    if len(text) > CHARS_MAX:
        raise TemplateError(f"has {len(text)} characters. An expression has at most {CHARS_MAX}.")
    parser = _Parser(text[1:-1])
    found = parser.expression(0)
    parser.end()
    return found


class _Parser:
    """Reads an expression from left to right. `_at`: the first character that is not read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def expression(self, depth: int) -> Expression:
        """Read an expression, with what follows a dot or is in brackets."""
        if depth > DEPTH_MAX:
            raise TemplateError(f"is nested more than {DEPTH_MAX} deep.")
        found = self._primary(depth)
        while True:
            if self._takes("."):
                found = Member(found, Literal(self._name("the name of a member")))
            elif self._takes("["):
                found = Member(found, self.expression(depth + 1))
                self._expect("]")
            else:
                return found

    def end(self) -> None:
        """Raise TemplateError unless all is read."""
        self._skip()
        if self._at != len(self._text):
            raise self._wrong("the end")

    def _primary(self, depth: int) -> Expression:
        token = _TOKEN.match(self._text, self._at)
        if token is not None and token["text"] is not None:
            self._at = token.end()
            return Literal(token["text"][1:-1].replace("''", "'"))
        if token is not None and token["number"] is not None:
            self._at = token.end()
            return Literal(int(token["number"]))
        written = self._name("a text in single quotes, a number or a function")
        if self._takes("."):
            # A function of the template, in a namespace.
            written += f".{self._name('the name of a function')}"
        self._expect("(")
        arguments: list[Expression] = []
        if not self._takes(")"):
            arguments.append(self.expression(depth + 1))
            while self._takes(","):
                arguments.append(self.expression(depth + 1))
            self._expect(")")
        return Call(written.lower(), written, tuple(arguments))

    def _name(self, wanted: str) -> str:
        token = _TOKEN.match(self._text, self._at)
        if token is None or token["name"] is None:
            raise self._wrong(wanted)
        self._at = token.end()
        found: str = token["name"]
        return found

    def _takes(self, sign: str) -> bool:
        self._skip()
        if not self._text.startswith(sign, self._at):
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._wrong(sign)

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None, "it matches nothing, too"
        self._at = found.end()

    def _wrong(self, wanted: str) -> TemplateError:
        # The outer bracket is the first character.
        return TemplateError(f"is no expression: {wanted} is missing at character {self._at + 2}.")
