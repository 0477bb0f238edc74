"""`python -m tools.generate_sync [--check]`: write `sync/` from `aio/`, the source of both.

A file of `sync/` is its source without `async` and `await`, with the names and words of NAMES and
WORDS exchanged, formatted by ruff. Two comments mark what only one surface has:

    _of_loop = True  # async only          the line is left out
    # sync only: next = __next__           the comment becomes the line

Generation fails if a word of asynchronous code is left: then it needs an entry below.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).parents[1] / "client" / "bendybus" / "client"
# Written by hand on both surfaces.
BY_HAND: Final = ("__init__.py", "lock_renewer.py", "management/__init__.py")
NAMES: Final = {
    "AsyncItemPaged": "ItemPaged",
    "AsyncIterator": "Iterator",
    "AsyncPages": "Pages",
    "LoopWaiter": "ThreadWaiter",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aio": "sync",
    "anext": "next",
    "loop_waiter": "thread_waiter",
}
# In docstrings and comments; longer phrases first.
WORDS: Final = {
    "are awaited in the application's loop": "block the caller's thread",
    "bendybus.client.aio": "bendybus.client",
    "asynchronous": "synchronous",
    "other tasks": "other threads",
    "Tasks may": "Threads may",
}
LEFT_OVER: Final = re.compile(r"\b(async|asyncio|aio|await|awaited|awaits|loops?|tasks?)\b", re.I)
_UNWRAPPED: Final = "Awaitable"
_ASYNC_ONLY: Final = "# async only"
_SYNC_ONLY: Final = "# sync only: "
_HEADER: Final = "# Generated from {} by `make sync`: edit that file.\n"
_TEXTS: Final = {
    # The last one is of Python 3.12.
    getattr(tokenize, name, -1)
    for name in ("STRING", "COMMENT", "FSTRING_MIDDLE")
}
_RUFF: Final = ("-", "--quiet", "--stdin-filename")


def main(arguments: list[str]) -> int:
    """Write the files, or with --check compare them; 1 when one differs."""
    wanted = {CLIENT / "sync" / name: generated(name) for name in sources()}
    kept = {CLIENT / "sync" / name for name in BY_HAND}
    found = set((CLIENT / "sync").rglob("*.py"))
    extra = sorted(found - set(wanted) - kept)
    stale = [path for path, text in wanted.items() if path not in found or _read(path) != text]
    if "--check" in arguments:
        for path in (*stale, *extra):
            print(f"{path.relative_to(CLIENT)} is not what aio/ generates: run make sync")
        return 1 if stale or extra else 0
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    for path in extra:
        path.unlink()
    return 0


def sources() -> list[str]:
    """Return the files of `aio/` that have a generated counterpart, by their paths in it."""
    found = (CLIENT / "aio").rglob("*.py")
    names = sorted(path.relative_to(CLIENT / "aio").as_posix() for path in found)
    return [name for name in names if name not in BY_HAND]


def generated(name: str) -> str:
    """Return the synchronous counterpart of a file of `aio/`. Raises ValueError if it has none."""
    text = _header(name) + to_sync(_read(CLIENT / "aio" / name))
    place = str(CLIENT / "sync" / name)
    text = _ruff(("check", "--fix-only", "--unsafe-fixes", "--select=F401,I001,UP028"), text, place)
    text = _ruff(("format",), text, place)
    for number, line in enumerate(text.splitlines()[1:], 2):
        if found := LEFT_OVER.search(line):
            raise ValueError(f"sync/{name}:{number}: {found[0]!r} is left in: {line.strip()}")
    return text


def to_sync(source: str) -> str:
    """Return asynchronous code as synchronous code, not formatted."""
    lines = source.splitlines(keepends=True)
    kept = [line for line in lines if not line.rstrip().endswith(_ASYNC_ONLY)]
    text = "".join(kept)
    starts = [0]
    for line in kept:
        starts.append(starts[-1] + len(line))
    parts: list[str] = []
    at = 0
    for start, end, replacement in _edits(text):
        first, last = (starts[row - 1] + column for row, column in (start, end))
        parts += [text[at:first], replacement]
        at = last
    return "".join([*parts, text[at:]])


_Place = tuple[int, int]


def _edits(text: str) -> Iterator[tuple[_Place, _Place, str]]:
    """Yield what to replace, in order: from, to, and what stands there instead."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    closing: list[bool] = []
    for index, token in enumerate(tokens):
        following = tokens[min(index + 1, len(tokens) - 1)]
        if token.type in _TEXTS:
            yield token.start, token.end, _words(token.string)
        elif token.string in ("async", "await"):
            yield token.start, following.start, ""
        elif token.string == _UNWRAPPED and following.string == "[":
            yield token.start, following.end, ""
        elif token.string == "[":
            closing.append(tokens[index - 1].string == _UNWRAPPED)
        elif token.string == "]" and closing.pop():
            yield token.start, token.end, ""
        elif token.string in NAMES and token.type == tokenize.NAME:
            yield token.start, token.end, NAMES[token.string]


def _words(text: str) -> str:
    if text.startswith(_SYNC_ONLY):
        return text.removeprefix(_SYNC_ONLY)
    for old, new in WORDS.items():
        text = text.replace(old, new)
    return re.sub(r"\w+", lambda found: NAMES.get(found[0], found[0]), text)


def _header(name: str) -> str:
    return _HEADER.format(f"aio/{name}")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _ruff(command: tuple[str, ...], text: str, path: str) -> str:
    line = [sys.executable, "-m", "ruff", *command, *_RUFF, path]
    return subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
