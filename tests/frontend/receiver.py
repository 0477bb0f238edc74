"""A receive cache with a clock: open receives, let partitions answer, look at what it did."""

import itertools
from collections.abc import Iterator
from typing import Any

from bendybus.frontend.core.credit import Credit
from bendybus.frontend.core.lease import SessionLease, lease_of_messages
from bendybus.frontend.core.partition_asks import AskPartition, GiveBack, HandOver, WithdrawAsk
from bendybus.frontend.core.receive_cache import Cache


class Receiver:
    """A cache with a clock, and what it did."""

    def __init__(
        self, partitions: int = 4, down: tuple[int, ...] = (), session: SessionLease | None = None
    ) -> None:
        self.now = 10_000
        self.down = set(down)
        self.session = session
        ids = itertools.count(1)
        self.cache = Cache(
            range(partitions), self._available, lambda: next(ids), self.now, lease=session
        )
        # Instead of a receiver and its name for the credit.
        self.tags: Iterator[Any] = itertools.count(1)
        self.credits: dict[int, Credit] = {}
        self.asked: dict[int, AskPartition] = {}
        self.handed: list[tuple[Any, list[str]]] = []
        self.unanswered: list[Any] = []
        self.given_back: list[str] = []
        self.withdrawn: dict[int, WithdrawAsk] = {}

    def _available(self, partition: int) -> bool:
        return partition not in self.down and (
            self.session is None or self.session.askable(self.now)
        )

    def take(self, actions: list[Any]) -> None:
        """Note what is to be done."""
        for action in actions:
            if isinstance(action, AskPartition):
                self.asked[action.partition] = action
            elif isinstance(action, WithdrawAsk):
                self.withdrawn[action.partition] = action
                self.asked.pop(action.partition, None)
            elif isinstance(action, HandOver):
                slices: Any = action.slices
                names = [n for data, start, end, _, _ in slices for n in data[start:end]]
                self.handed.append((action.credit.tag, names))
                if action.unanswered:
                    self.unanswered.append(action.credit.tag)
            else:
                assert isinstance(action, GiveBack)
                data: Any = action.data
                self.given_back += data[action.start : action.end]

    def ask(
        self, messages: int = 1, wait_ms: int = 1_000, size_bytes: int = 1 << 20, owner: str = "me"
    ) -> int:
        """Grant credit that lapses at its first delivery, with a deadline; return its tag."""
        return self._grant(messages, size_bytes, self.now + wait_ms, owner, lapses=True)

    def grant(self, messages: int, owner: str = "me", size_bytes: int = 1 << 20) -> int:
        """Grant credit that stays until it is used up or drained; return its tag."""
        return self._grant(messages, size_bytes, None, owner, lapses=False)

    def _grant(
        self, messages: int, size_bytes: int, until_ms: int | None, owner: str, *, lapses: bool
    ) -> int:
        tag = next(self.tags)
        credit = Credit(tag, messages, size_bytes, until_ms, owner, lapses)
        self.credits[tag] = credit
        self.take(self.cache.grant(credit, self.now))
        return tag

    def grant_more(self, tag: int, messages: int) -> None:
        """Add to credit."""
        self.credits[tag].messages += messages
        self.take(self.cache.grant(self.credits[tag], self.now))

    def drain(self, tag: int) -> None:
        """Drain credit."""
        self.take(self.cache.drain(self.credits[tag], self.now))

    def cancel(self, tag: int) -> None:
        """Void credit now."""
        self.take(self.cache.cancel(self.credits[tag], self.now))

    def reserve(
        self, partition: int, *names: str, more: bool = False, size: int = 10, lock_ms: int = 60_000
    ) -> None:
        """Let a partition answer its open ask."""
        ask = self.asked.pop(partition)
        data: Any = list(names)
        self.take(
            self.cache.reserved(
                ask.ask_id,
                partition,
                data,
                [size] * len(names),
                lease=self.session or lease_of_messages(self.now + lock_ms, lock_ms),
                more=more,
                now_ms=self.now,
            )
        )

    def confirm(self, *partitions: int) -> None:
        """Let partitions answer the withdrawal of their asks."""
        for partition in partitions or list(self.withdrawn):
            withdrawn = self.withdrawn.pop(partition)
            self.take(self.cache.ask_ended(withdrawn.ask_id, partition, self.now))

    def pass_time(self, milliseconds: int) -> None:
        """Move the clock; what was due is done, so that no alarm rings again at once."""
        self.now += milliseconds
        self.take(self.cache.due(self.now))
        following = self.cache.next_due()
        assert following is None or following > self.now
