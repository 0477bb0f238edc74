"""The group of all commands: what is wrong with a value is said in the words of this project.

The parser of options has another library check values, whose sentences name what no user knows
("Input should be a valid integer, unable to parse string as an integer").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer.core


class CommandGroup(typer.core.TyperGroup):
    """Parses and runs; a value that is refused is said in our sentence, wherever it stands."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options before the command."""
        with _in_our_words():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse what follows, and run the command."""
        with _in_our_words():
            return super().invoke(ctx)


@contextmanager
def _in_our_words() -> Iterator[None]:
    try:
        yield
    except typer.BadParameter as error:
        found = getattr(error.__cause__, "errors", None)
        if found is not None:
            error.message = _sentence(found()[0])
        raise


def _sentence(detail: Any) -> str:
    # Late: the library that it names takes longer than most commands.
    from bendybus.crds import field_errors

    reason = detail.get("ctx", {}).get("error")
    # What a check of the parser says is a sentence already, such as which values there are.
    return f"{reason}" if reason is not None else field_errors.sentence(detail)
