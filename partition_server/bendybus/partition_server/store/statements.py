"""Loads files of `sql/`: one statement per name, used by one caller each."""

import re
from importlib import resources
from typing import Final

_BLOCK: Final = re.compile(r"^-- (\w+) --\n-- .+\n", re.MULTILINE)


def load(file: str = "queries.sql") -> dict[str, str]:
    """Return statement by name."""
    text = (resources.files(__package__) / "sql" / file).read_text("utf-8")
    parts = _BLOCK.split(text)[1:]
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


def schema() -> str:
    """Return the script that makes the tables of a file."""
    return (resources.files(__package__) / "sql" / "schema.sql").read_text("utf-8")
