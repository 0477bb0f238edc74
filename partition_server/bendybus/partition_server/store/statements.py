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


def migrations() -> list[str]:
    """Return the scripts that make a file, in order; the n-th leads to user_version n."""
    folder = resources.files(__package__) / "sql" / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(folder / name).read_text("utf-8") for name in names]
