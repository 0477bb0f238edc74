"""The grammar of SQL filters and actions, for lark's LALR parser; and its words for sentences."""

from collections.abc import Collection
from typing import Final

# Every terminal has a name, so that what was expected can be said in words.
GRAMMAR: Final = r"""
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
