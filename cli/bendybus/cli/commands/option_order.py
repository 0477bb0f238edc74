"""Options of `bendybus` itself, wherever they stand on the command line. Pure.

`bendybus get queues --kube` means `bendybus --kube get queues`. An option that the command has
itself stays its own, what follows `--` is not looked at, and a value is never taken for an option.
And `--json`, as 0.6 had it, means `--output=json`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

_END: Final = "--"
_OLD_JSON: Final = "--json"
_JSON: Final = "--output=json"
# Commands and options of typer's parser; it has no public types of its own.
Command = Any
Option = Any


def ordered(arguments: Sequence[str], root: Command) -> list[str]:
    """Return the arguments with the options of `root` before the command."""
    first: list[str] = []
    rest: list[str] = []
    command = root
    left = iter(arguments)
    for word in left:
        if word == _END:
            return [*first, *rest, word, *left]
        if not word.startswith("-") or word == "-":
            rest.append(word)
            command = getattr(command, "commands", {}).get(word, command)
            continue
        found = _option(word, command)
        if word == _OLD_JSON and found is None and _option(_JSON, command) is not None:
            rest.append(_JSON)
            continue
        if found is None and command is not root:
            found = _option(word, root)
            if found is not None:
                first += [word, *_value(word, found, left)]
                continue
        rest += [word, *_value(word, found, left)]
    return [*first, *rest]


def _option(word: str, command: Command) -> Option | None:
    """Return the option of a command that a word is."""
    name = word.partition("=")[0] if word.startswith("--") else word[:2]
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        if name in parameter.opts or name in parameter.secondary_opts:
            return parameter
    return None


def _value(word: str, option: Option | None, left: Iterator[str]) -> list[str]:
    """Return the word that is the option's value, if it is a word of its own."""
    if option is None or option.is_flag or option.count:
        return []
    attached = "=" in word if word.startswith("--") else len(word) > 2
    found = None if attached else next(left, None)
    return [] if found is None else [found]
