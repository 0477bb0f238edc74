"""The tool that writes the synchronous surface."""

import pytest

from tools import generate_sync
from tools.generate_sync import to_sync


def test_asynchronous_code_becomes_synchronous_code() -> None:
    source = '''
class Box(AsyncIterator[int]):
    """Tasks may share it."""

    async def __anext__(self) -> "AsyncPages[int]":
        async with self.lock:
            return await anext(self.items)
'''

    assert (
        to_sync(source)
        == '''
class Box(Iterator[int]):
    """Threads may share it."""

    def __next__(self) -> "Pages[int]":
        with self.lock:
            return next(self.items)
'''
    )


def test_an_awaitable_becomes_what_it_gives() -> None:
    assert to_sync("Page = Call[[str], Awaitable[tuple[list[T], str]]]\n") == (
        "Page = Call[[str], tuple[list[T], str]]\n"
    )


def test_lines_of_one_surface_only_are_marked_by_comments() -> None:
    source = "on_loop = True  # async only\n# sync only: next = __next__\nboth = 1\n"

    assert to_sync(source) == "next = __next__\nboth = 1\n"


def test_a_word_of_asynchronous_code_that_is_left_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate_sync, "_read", lambda path: "# the loop of the application\n")

    with pytest.raises(ValueError, match=r"^sync/x\.py:2: 'loop' is left in: # the loop"):
        generate_sync.generated("x.py")


def test_every_entry_of_the_tables_is_used() -> None:
    text = "".join(
        (generate_sync.CLIENT / "aio" / name).read_text(encoding="utf-8")
        for name in generate_sync.sources()
    )

    unused = [old for old in (*generate_sync.NAMES, *generate_sync.WORDS) if old not in text]
    assert unused == []


def test_files_that_are_neither_generated_nor_known_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert generate_sync.main(["--check"]) == 0

    monkeypatch.setattr(generate_sync, "BY_HAND", ())
    monkeypatch.setattr(generate_sync, "sources", list)

    assert generate_sync.main(["--check"]) == 1
    assert "sync/sender.py is not what aio/ generates: run make sync" in capsys.readouterr().out
