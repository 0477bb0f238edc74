"""Lists of sessions from a number on: walked in pages, from the last place that was reached."""

import asyncio
from typing import Any

import pytest

from bendybus.frontend.core.quota.bounds import SESSION_LISTS_MAX
from bendybus.frontend.core.sessions import PAGE_MAX
from bendybus.frontend.listeners.amqp.session_lists import SessionLists

pytestmark = pytest.mark.requirement("R621")


class Pages:
    """Sessions by number, in pages; notes what is asked for."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.asked: list[tuple[str, int, int]] = []
        self.under_way = self.most_under_way = 0
        self._wanted, self._reached = 0, asyncio.Event()

    async def reached(self, count: int) -> None:
        """Wait for the request for this page, counted from one."""
        self._wanted = count
        await self._reached.wait()

    async def page(
        self, name: str, size: int, token: bytes, updated_ms: int
    ) -> tuple[list[str], bytes]:
        """Return a page, as the core does."""
        start = int(token or b"0")
        self.asked.append((name, start, size))
        if len(self.asked) == self._wanted:
            self._reached.set()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        end = min(self._count, start + size)
        return [f"s{each}" for each in range(start, end)], (
            str(end).encode() if end < self._count else b""
        )


def listed(lists: SessionLists, pages: Any, skip: int, most: int = 100, name: str = "q") -> Any:
    return lists.page(pages, name, 0, skip, most)


async def test_a_list_page_by_page_never_walks() -> None:
    pages, lists = Pages(250), SessionLists()

    found = [await listed(lists, pages, skip) for skip in (0, 100, 200, 250)]

    assert [len(each) for each in found] == [100, 100, 50, 0]
    assert found[1][0] == "s100"
    assert [start for _, start, _ in pages.asked] == [0, 100, 200]


async def test_a_list_from_further_on_is_walked_to_in_pages() -> None:
    pages, lists = Pages(5_000), SessionLists()

    found = await listed(lists, pages, 2_500, 2)

    assert found == ["s2500", "s2501"]
    assert [size for _, _, size in pages.asked] == [PAGE_MAX, PAGE_MAX, 500, 2]


async def test_a_walk_begins_at_the_last_place_before_it() -> None:
    pages, lists = Pages(5_000), SessionLists()
    await listed(lists, pages, 2_000, 1)
    pages.asked.clear()

    further = await listed(lists, pages, 2_500, 1)
    before = await listed(lists, pages, 1, 1)

    assert (further, before) == (["s2500"], ["s1"])
    assert [start for _, start, _ in pages.asked] == [2_001, 2_500, 0, 1]


async def test_one_page_of_a_connection_is_under_way_at_a_time() -> None:
    pages, lists = Pages(10_000), SessionLists()

    found = await asyncio.gather(*(listed(lists, pages, 5_000, 1) for _ in range(50)))

    assert found == [["s5000"]] * 50
    assert pages.most_under_way == 1
    # The first one walks; the others begin where its answer does.
    assert len(pages.asked) == 5 + 50


async def test_a_walk_that_took_too_long_goes_on_with_the_next_request() -> None:
    pages, lists = Pages(10_000), SessionLists()
    walk = asyncio.ensure_future(listed(lists, pages, 9_000, 1))
    await pages.reached(5)
    walk.cancel()
    await asyncio.wait([walk])
    pages.asked.clear()

    assert await listed(lists, pages, 9_000, 1) == ["s9000"]
    assert pages.asked[0][1] >= 4_000


async def test_the_places_that_are_remembered_have_a_bound() -> None:
    pages, lists = Pages(10), SessionLists()

    for number in range(SESSION_LISTS_MAX + 5):
        await listed(lists, pages, 0, 5, name=f"q{number}")
    pages.asked.clear()
    await listed(lists, pages, 5, 5, name=f"q{SESSION_LISTS_MAX + 4}")
    await listed(lists, pages, 5, 5, name="q0")

    assert [start for _, start, _ in pages.asked] == [5, 0, 5]
