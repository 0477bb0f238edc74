"""The code blocks of a page, in order, and the command lines in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^( *)```(sh|python)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_INLINE: Final = re.compile(r"`(bendybus [^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `section`: the heading above it, "" before the first."""

    language: str
    text: str
    section: str

    def lines(self) -> Iterator[str]:
        """Yield the command lines of a block for a shell, without comments alone."""
        for line in self.text.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        above = _HEADING.findall(text[: match.start()])
        body = "".join(line.removeprefix(match[1]) for line in match[3].splitlines(keepends=True))
        found.append(Block(match[2], body, above[-1] if above else ""))
    return found


def inline(page: Path) -> list[str]:
    """Return the commands that stand in sentences."""
    return [" ".join(each.split()) for each in _INLINE.findall(page.read_text(encoding="utf-8"))]
