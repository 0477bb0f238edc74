"""Lists of sessions from a number on, which is the only place in a list that AMQP knows.

The core has pages, each with the token of the next one. A list goes on from the last place that the
connection reached at or before the number, page after page; so clients that list page by page never
walk. One page is under way for a connection at a time, whatever it asks for: however far it skips,
commands of others come between two pages.
"""

import asyncio
from collections import OrderedDict
from typing import Final, NamedTuple

from bendybus.frontend.core.quota.bounds import SESSION_LISTS_MAX
from bendybus.frontend.core.sessions import PAGE_MAX, SessionDispatcher

# The token of the page after the last one.
_END: Final = b""


class _Place(NamedTuple):
    """How many sessions were passed, and the token of the page that follows; None: the first."""

    passed: int
    page_token: bytes | None


class SessionLists:
    """The lists of one connection."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        # By entity, and since when the states of the sessions were updated: where the last answer
        # begins, and where it ends.
        self._places: OrderedDict[tuple[str, int], tuple[_Place, ...]] = OrderedDict()

    async def page(
        self, sessions: SessionDispatcher, name: str, updated_ms: int, skip: int, most: int
    ) -> list[str]:
        """Return the sessions of an entity after the first `skip`, at most `most`.

        `updated_ms`: see `SessionDispatcher.page`, which also says what this raises.
        """
        async with self._turn:
            known = self._places.pop((name, updated_ms), ())
            before = [each for each in known if each.passed <= skip]
            begin = place = before[-1] if before else _Place(0, None)
            found: list[str] = []
            try:
                while place.page_token != _END and len(found) < most:
                    walks = place.passed < skip
                    wanted = skip - place.passed if walks else most - len(found)
                    ids, token = await sessions.page(
                        name, min(PAGE_MAX, wanted), place.page_token or b"", updated_ms
                    )
                    place = _Place(place.passed + len(ids), token)
                    if walks:
                        begin = place
                    else:
                        found += ids
            finally:
                # A walk that takes longer than its request goes on with the next one.
                self._places[name, updated_ms] = (begin, place)
                while len(self._places) > SESSION_LISTS_MAX:
                    self._places.popitem(last=False)
            return found
