"""Text of SQL filters and actions → syntax tree. Called when a rule is made or loaded.

The parser is LALR(1): its time is linear in the text, its stack is a list. lark is imported, and
its tables are made, when the first text is parsed: most processes parse none.
"""

import functools
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from bendybus.domain import bounds, limits
from bendybus.domain.errors import InvalidArgument
from bendybus.domain.filters import syntax, values

if TYPE_CHECKING:
    from lark import Lark, Token

from collections.abc import Collection

FILTER: Final = "filter"
ACTION: Final = "action"
_SHOWN_CHARS: Final = 40
_FUNCTIONS: Final = "newid(), property(name) and p(name)"
_OPENINGS: Final = {
    "'": "the string that starts here has no closing '",
    '"': 'the name that starts here has no closing "',
    "[": "the name that starts here has no closing ]",
}
# Every terminal has a name, so that what was expected can be said in words.
_GRAMMAR: Final = r"""
filter: predicate
action: statement (_SEMICOLON? statement)* _SEMICOLON?

?statement: _SET property _EQUAL expression -> set
          | _REMOVE property                -> remove

?predicate: conjunction
          | conjunction (_OR conjunction)+      -> any_of
?conjunction: negation
            | negation (_AND negation)+         -> all_of
?negation: condition
         | _NOT negation                        -> negated
?condition: expression comparison expression                     -> compared
          | expression _IS _NULL                                 -> is_null
          | expression _IS _NOT _NULL                            -> is_not_null
          | expression _IN _OPEN items _CLOSE                    -> in_list
          | expression _NOT _IN _OPEN items _CLOSE               -> not_in_list
          | expression _LIKE expression (_ESCAPE expression)?        -> like
          | expression _NOT _LIKE expression (_ESCAPE expression)?   -> not_like
          | _EXISTS _OPEN property _CLOSE                        -> exists
          | _OPEN predicate _CLOSE
items: expression (_COMMA expression)*
!comparison: _EQUAL | UNEQUAL | AT_MOST | AT_LEAST | LESS | MORE

?expression: term
           | term ((PLUS | MINUS) term)+                -> arithmetic
?term: factor
     | factor ((STAR | SLASH | PERCENT) factor)+        -> arithmetic
?factor: primary
       | (PLUS | MINUS) factor                          -> signed
?primary: INTEGER                                       -> integer
        | DECIMAL                                       -> decimal
        | STRING                                        -> string
        | _TRUE                                         -> true
        | _FALSE                                        -> false
        | _NULL                                         -> null
        | PARAMETER                                     -> parameter
        | name _OPEN [expression] _CLOSE                -> function
        | property
        | _OPEN expression _CLOSE
property: name [_DOT name]
!name: IDENTIFIER | DELIMITED | QUOTED | _SET | _REMOVE

_AND.3: /and(?!\w)/i
_OR.3: /or(?!\w)/i
_NOT.3: /not(?!\w)/i
_IS.3: /is(?!\w)/i
_NULL.3: /null(?!\w)/i
_IN.3: /in(?!\w)/i
_LIKE.3: /like(?!\w)/i
_ESCAPE.3: /escape(?!\w)/i
_EXISTS.3: /exists(?!\w)/i
_TRUE.3: /true(?!\w)/i
_FALSE.3: /false(?!\w)/i
_SET.3: /set(?!\w)/i
_REMOVE.3: /remove(?!\w)/i

IDENTIFIER.2: /[^\W\d_]\w*/
DELIMITED.2: /\[(?:[^\]]|\]\])+\]/
QUOTED.2: /"(?:[^"]|"")+"/
PARAMETER.2: /@[^\W\d]\w*/
STRING.2: /'(?:[^']|'')*'/
DECIMAL.2: /(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?(?!\w)|[0-9]+e[+-]?[0-9]+(?!\w)/i
INTEGER.1: /[0-9]+(?!\w)/

_EQUAL: "="
UNEQUAL: "<>" | "!="
AT_MOST: "<="
AT_LEAST: ">="
LESS: "<"
MORE: ">"
PLUS: "+"
MINUS: "-"
STAR: "*"
SLASH: "/"
PERCENT: "%"
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
_DOT: "."
_SEMICOLON: ";"

%import common.WS
%ignore WS
"""
# A group is named when one of its terminals is possible; groups in the order of the sentence.
_GROUPS: Final = (
    ("a property", {"IDENTIFIER", "DELIMITED", "QUOTED"}),
    ("a constant", {"INTEGER", "DECIMAL", "STRING"}),
    ("SET", {"_SET"}),
    ("REMOVE", {"_REMOVE"}),
    ("EXISTS", {"_EXISTS"}),
    ("AND", {"_AND"}),
    ("OR", {"_OR"}),
    ("a comparison (=, <>, <, <=, >, >=)", {"LESS", "MORE", "UNEQUAL"}),
    ("=", {"_EQUAL"}),
    ("NOT", {"_NOT"}),
    ("IS", {"_IS"}),
    ("IN", {"_IN"}),
    ("LIKE", {"_LIKE"}),
    ("ESCAPE", {"_ESCAPE"}),
    ("NULL", {"_NULL"}),
    ("an arithmetic operator", {"STAR"}),
    ("'.'", {"_DOT"}),
    ("'('", {"_OPEN"}),
    ("')'", {"_CLOSE"}),
    ("','", {"_COMMA"}),
    ("';'", {"_SEMICOLON"}),
    ("the end", {"$END"}),
)


def parse_filter(text: str, field: str) -> syntax.Predicate:
    """Return the tree of a filter. Raises InvalidArgument with line, column and what is wrong."""
    found = _parse(text, FILTER, field)
    _check_tree(field, found)
    return cast(syntax.Predicate, found)


def parse_action(text: str, field: str) -> tuple[syntax.Statement, ...]:
    """Return the statements of an action. Raises InvalidArgument, as `parse_filter` does."""
    found = cast(tuple[syntax.Statement, ...], _parse(text, ACTION, field))
    if len(found) > limits.SQL_ACTION_STATEMENTS_MAX:
        raise InvalidArgument(
            field,
            f"must have at most {limits.SQL_ACTION_STATEMENTS_MAX} expressions (got {len(found)}).",
        )
    _check_tree(field, *found)
    return found


def check_text(text: str, field: str) -> None:
    """Raise InvalidArgument for a text that no parser needs to see."""
    bounds.check_text(field, text, limits.SQL_TEXT_CHARS_MAX)
    if not text.strip():
        raise InvalidArgument(field, "must not be empty.")


def _check_tree(field: str, *roots: syntax.Node) -> None:
    for node, depth in syntax.walk(*roots):
        if isinstance(node, _TooLarge):
            wrong = _too_large(node.token)
            raise _invalid(field, wrong.line, wrong.column, wrong.text)
        if depth > limits.SQL_NESTING_MAX:
            raise InvalidArgument(
                field,
                f"operators must be nested at most {limits.SQL_NESTING_MAX} deep. "
                "Split the rule into several.",
            )


def _parse(text: str, start: str, field: str) -> Any:
    check_text(text, field)
    import lark

    try:
        return _lark().parse(text, start=start)
    except lark.UnexpectedCharacters as error:
        raise _invalid(field, error.line, error.column, _bad_character(text, error)) from None
    except lark.UnexpectedToken as error:
        expected = words(error.accepts or error.expected)
        if error.token.type == "$END":
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
            ends = f"the text ends too early: expected {expected}"
            raise _invalid(field, line, column, ends) from None
        found = f"unexpected {_shown(error.token)}: expected {expected}"
        raise _invalid(field, error.line, error.column, found) from None
    except _Wrong as error:
        raise _invalid(field, error.line, error.column, error.text) from None


class _Wrong(Exception):
    """Raised for what the grammar allows and the language does not."""

    def __init__(self, token: "Token", text: str) -> None:
        super().__init__(text)
        self.line, self.column, self.text = token.line, token.column, text


def _invalid(field: str, line: int | None, column: int | None, text: str) -> InvalidArgument:
    return InvalidArgument(field, f"line {line}, column {column}: {text}.")


def _shown(text: str) -> str:
    # A token is a str with a repr of its own.
    return repr(str(text) if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")


def _bad_character(text: str, error: Any) -> str:
    character = text[error.pos_in_stream]
    if character in _OPENINGS:
        rest = text[error.pos_in_stream : error.pos_in_stream + 2]
        if rest in ("[]", '""'):
            return "a name must not be empty"
        return _OPENINGS[character]
    if character.isascii() and character.isdigit():
        return "a number must not be followed by a letter, digit or _"
    if character == "@":
        return "@ must be followed by the name of a parameter"
    return f"unexpected character {character!r}; names with it must be in brackets: [name]"


@functools.cache
def _lark() -> "Lark":
    import lark

    return lark.Lark(
        _GRAMMAR,
        start=[FILTER, ACTION],
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        maybe_placeholders=True,
    )


class _TooLarge(NamedTuple):
    """The integer 2^63: right only behind a minus sign."""

    token: "Token"


class _Builder:
    """Makes nodes while lark parses, from the bottom up: no tree of lark's, no recursion.

    The methods have the names of the grammar's rules; lark hands over one list of children.
    """

    def filter(self, given: list[Any]) -> Any:
        return given[0]

    def action(self, given: list[Any]) -> Any:
        return tuple(given)

    def set(self, given: list[Any]) -> syntax.Set:
        return syntax.Set(*given)

    def remove(self, given: list[Any]) -> syntax.Remove:
        return syntax.Remove(*given)

    def any_of(self, given: list[Any]) -> syntax.Or:
        return syntax.Or(tuple(given))

    def all_of(self, given: list[Any]) -> syntax.And:
        return syntax.And(tuple(given))

    def negated(self, given: list[Any]) -> syntax.Not:
        return syntax.Not(*given)

    def compared(self, given: list[Any]) -> syntax.Comparison:
        left, operator, right = given
        return syntax.Comparison(operator, left, right)

    def comparison(self, given: list[Any]) -> str:
        return "<>" if given[0] == "!=" else str(given[0])

    def is_null(self, given: list[Any]) -> syntax.IsNull:
        return syntax.IsNull(*given)

    def is_not_null(self, given: list[Any]) -> syntax.Not:
        return syntax.Not(syntax.IsNull(*given))

    def in_list(self, given: list[Any]) -> syntax.In:
        return syntax.In(*given)

    def not_in_list(self, given: list[Any]) -> syntax.Not:
        return syntax.Not(syntax.In(*given))

    def items(self, given: list[Any]) -> tuple[Any, ...]:
        return tuple(given)

    def like(self, given: list[Any]) -> syntax.Like:
        return syntax.Like(*given)

    def not_like(self, given: list[Any]) -> syntax.Not:
        return syntax.Not(syntax.Like(*given))

    def exists(self, given: list[Any]) -> syntax.Exists:
        return syntax.Exists(*given)

    def arithmetic(self, given: list[Any]) -> syntax.Arithmetic:
        rest = zip(map(str, given[1::2]), given[2::2], strict=True)
        return syntax.Arithmetic(given[0], tuple(rest))

    def signed(self, given: list[Any]) -> syntax.Expression:
        sign, operand = given
        if isinstance(operand, _TooLarge) and sign == "-":
            return syntax.Constant(values.INTEGER_MIN)
        value = operand.value if isinstance(operand, syntax.Constant) else None
        # -(-2^63) does not fit: that is found when it is evaluated, as for properties.
        if values.is_number(value) and value != values.INTEGER_MIN:
            return syntax.Constant(value if sign == "+" else -value)
        return syntax.Signed(str(sign), operand)

    def integer(self, given: "list[Token]") -> syntax.Constant | _TooLarge:
        # At most 1,024 digits, so that the conversion is cheap.
        number = int(given[0])
        if number == values.INTEGER_MAX + 1:
            return _TooLarge(given[0])
        if number > values.INTEGER_MAX:
            raise _too_large(given[0])
        return syntax.Constant(number)

    def decimal(self, given: "list[Token]") -> syntax.Constant:
        number = float(given[0])
        if not math.isfinite(number):
            raise _too_large(given[0])
        return syntax.Constant(number)

    def string(self, given: "list[Token]") -> syntax.Constant:
        return syntax.Constant(given[0][1:-1].replace("''", "'"))

    def true(self, given: list[Any]) -> syntax.Constant:
        return syntax.Constant(True)

    def false(self, given: list[Any]) -> syntax.Constant:
        return syntax.Constant(False)

    def null(self, given: list[Any]) -> syntax.Constant:
        return syntax.Constant(None)

    def parameter(self, given: "list[Token]") -> syntax.Parameter:
        return syntax.Parameter(str(given[0][1:]))

    def function(self, given: list[Any]) -> syntax.Expression:
        token, argument = given
        function = token.lower() if token.type == "IDENTIFIER" else ""
        if function == "newid" and argument is None:
            return syntax.NewId()
        if function in ("property", "p") and argument is not None:
            return syntax.PropertyNamed(argument)
        takes = {"newid": "takes no argument", "property": "takes a name", "p": "takes a name"}
        fault = takes.get(function, f"is unknown; the functions are {_FUNCTIONS}")
        raise _Wrong(token, f"the function {_shown(token)} {fault}")

    def property(self, given: "list[Token | None]") -> syntax.Property:
        first, second = given
        assert first is not None
        if second is None:
            return syntax.Property(syntax.Scope.USER, _name(first))
        scope = first.lower() if first.type == "IDENTIFIER" else ""
        if scope not in ("sys", "user"):
            raise _Wrong(
                first,
                f"the scope of a property is sys or user (got {_shown(first)}); "
                "a name with a dot in it must be in brackets: [name]",
            )
        return syntax.property_of(syntax.Scope(scope), _name(second))

    def name(self, given: "list[Token]") -> "Token":
        return given[0]


def _name(token: "Token") -> str:
    if token.type == "DELIMITED":
        return token[1:-1].replace("]]", "]")
    if token.type == "QUOTED":
        return token[1:-1].replace('""', '"')
    return str(token)


def _too_large(token: "Token") -> _Wrong:
    return _Wrong(token, f"the number {_shown(token)} does not fit into 64 bits")


def words(terminals: Collection[str]) -> str:
    """Return what one of these terminals is, in words: "a property, a constant or NOT"."""
    found = [name for name, group in _GROUPS if group & set(terminals)]
    # Said by the name of a larger group already.
    for larger, smaller in (
        ("a comparison (=, <>, <, <=, >, >=)", "="),
        ("a constant", "NULL"),
        ("a property", "SET"),
        ("a property", "REMOVE"),
    ):
        if larger in found and smaller in found:
            found.remove(smaller)
    *most, last = found or ["nothing"]
    return f"{', '.join(most)} or {last}" if most else last
