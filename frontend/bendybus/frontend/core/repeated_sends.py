"""Sends of clients that cannot repeat them by name: the front end does, as long as there is time.

A unit whose outcome is unknown is sent again under the name of its first try, until its partition
says what became of it. So that only what stays unknown is reported so.
"""

import asyncio
import itertools
from dataclasses import replace
from typing import Final

from bendybus.domain import limits
from bendybus.domain.errors import BusError, OutcomeUnknown
from bendybus.frontend.core import columns
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.send import (
    Respond,
    SendDispatcher,
    SendOutcome,
    SendRequest,
    outcome_of,
)
from bendybus.frontend.core.shared_sends import SharedSends

# Before the first repeat, and at most.
PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 2.0


class RepeatedSends:
    """Sends that go with those of others, each repeated while its own outcome is unknown."""

    def __init__(self, shared: SharedSends, sends: SendDispatcher) -> None:
        """`shared` sends each request first, `sends` repeats it."""
        self._shared = shared
        self._sends = sends

    def submit(self, request: SendRequest, respond: Respond, holder: Holder) -> None:
        """Start a request without a name; `respond` is called once, maybe at once."""
        sending = _Sending(self._sends, request, respond, holder)
        self._shared.submit(request, sending.answered, holder)

    async def send(self, request: SendRequest, holder: Holder) -> SendOutcome:
        """Send one request and return its outcome. Raises why it was refused."""
        return await outcome_of(self.submit, request, holder)


class _Sending:
    """A request, from its first try to its last answer."""

    def __init__(
        self, sends: SendDispatcher, request: SendRequest, respond: Respond, holder: Holder
    ) -> None:
        self._sends = sends
        self._request = request
        self._respond = respond
        self._holder = holder
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._until_s = (
            self._began_s + (request.timeout_ms or limits.SEND_TIMEOUT_MS_DEFAULT) / 1_000
        )
        self._pause_s = PAUSE_S
        # What is known of all units; and which of them the try under way is for.
        self._outcome: SendOutcome | None = None
        self._units: list[int] = []

    def answered(self, result: SendOutcome | BusError) -> None:
        """Take the answer to a try."""
        known = self._outcome
        if known is None:
            if isinstance(result, BusError):
                self._respond(result)
                return
            known = result
        elif not isinstance(result, BusError):
            known = self._merged(known, result)
        self._outcome = known
        unknown = [
            unit for unit, error in known.failures.items() if isinstance(error, OutcomeUnknown)
        ]
        if not unknown or self._loop.time() + self._pause_s >= self._until_s:
            self._respond(known)
            return
        self._units = sorted(unknown)
        self._loop.call_later(self._pause_s, self._repeat)
        self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)

    def _repeat(self) -> None:
        first, now_s = self._request, self._loop.time()
        starts = self._starts()
        spans = [(starts[unit], starts[unit + 1]) for unit in self._units]
        request = replace(
            first,
            messages=columns.pick(first.messages, spans),
            group_sizes=[end - start for start, end in spans],
            positions=[first.position + start for start, _ in spans],
            timeout_ms=max(1, round((self._until_s - now_s) * 1_000)),
            age_ms=max(1, round((now_s - self._began_s) * 1_000)),
        )
        self._sends.submit(request, self.answered, self._holder)

    def _starts(self) -> list[int]:
        """Return where each unit begins, and where the last one ends."""
        sizes = self._request.group_sizes or (columns.count(self._request.messages),)
        return [0, *itertools.accumulate(sizes)]

    def _merged(self, known: SendOutcome, result: SendOutcome) -> SendOutcome:
        """Return what is known with the answer to a repeat of some units."""
        starts = self._starts()
        numbers, duplicates = list(known.numbers), list(known.duplicates)
        failures = dict(known.failures)
        possible = set(known.possible_duplicates)
        at = 0
        for index, unit in enumerate(self._units):
            start, end = starts[unit], starts[unit + 1]
            size = end - start
            error = result.failures.get(index)
            if error is None:
                del failures[unit]
                numbers[start:end] = result.numbers[at : at + size]
                if duplicates and result.duplicates:
                    duplicates[start:end] = result.duplicates[at : at + size]
            elif isinstance(error, OutcomeUnknown):
                failures[unit] = error
            if index in result.possible_duplicates:
                possible.add(unit)
            at += size
        return SendOutcome(result.entity, numbers, duplicates, failures, possible)
