"""Frames for topics that did not fit into one turn, in turn; the rule is `rules.publish_frames`.

A frame is answered once, at its end. What comes to a topic while a frame of it waits, waits behind
it: messages keep their order, and a repeat finds what the first try has stored.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.domain.steps import Steps
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.commands import Append, SendFenced
from bendybus.partition_server.state.producer_memory import Known
from bendybus.partition_server.state.shares import Shares
from bendybus.partition_server.state.stage import Answer, Stage

# What all frames that wait may take.
BYTES_MAX: Final = 64 * limits.MB
# What a frame takes beside its messages, roughly.
FRAME_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Begun:
    """How far a frame is: what is committed of it."""

    # What was stored by an earlier try, and what there is to do.
    known: Known | None
    fresh: Append
    # Groups of `fresh` that are done, and what became of them.
    done: int = 0
    outcome: Appended = field(default_factory=lambda: Appended([], [], []))

    def ended(self) -> Appended:
        """Return the outcome of the whole frame."""
        if any(self.outcome.duplicates):
            return self._merged(self.outcome)
        return self._merged(Appended(self.outcome.numbers, (), self.outcome.failures))

    def refused(self, error: BusError) -> Appended | Failed:
        """Return the outcome of a frame of which nothing more is stored."""
        if not self.done:
            if self.known is None:
                return Failed(error)
            return producer_memory.refuse_rest(self._command(), self.known, error)
        units = len(self.fresh.group_sizes) or 1
        rest = len(self.fresh.batch.payloads) - len(self.outcome.numbers)
        return self._merged(
            Appended(
                [*self.outcome.numbers, *[0] * rest],
                [*self.outcome.duplicates, *[False] * rest],
                [*self.outcome.failures, *((i, error) for i in range(self.done, units))],
            )
        )

    def _merged(self, outcome: Appended) -> Appended:
        if self.known is None:
            return outcome
        return producer_memory.merge(self._command(), self.known, outcome)

    def _command(self) -> Append:
        assert self.known is not None
        return self.known.command


@dataclass(slots=True)
class Frame:
    """A frame on its way. What is not committed of it is found again if it must be."""

    command: Append | SendFenced
    begun: Begun | None = None
    # Groups after those that are done that have met the rules of this version, and the next one.
    version: int = -1
    matched: list[Any] = field(default_factory=list)
    matching: Steps[Any] | None = None

    def size_bytes(self) -> int:
        """Return what the frame takes in memory, roughly."""
        return FRAME_BYTES + self.command.batch.content_bytes()

    def refused(self, error: BusError) -> Appended | Failed:
        """Return the outcome of a frame of which nothing more is stored."""
        return Failed(error) if self.begun is None else self.begun.refused(error)


class Publications:
    """The frames that wait for their next step, by slot of their topic."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Frame]] = {}
        # Frames of the stage that is being decided, by slot: how many.
        self._staged: dict[int, int] = {}
        # By slot, with those of the stage.
        self._sizes: Shares[int] = Shares()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def waits(self, slot: int) -> bool:
        """Whether something of a topic waits."""
        return slot in self._waiting or slot in self._staged

    def first(self) -> tuple[int, list[Frame]]:
        """Return the topic whose turn it is, by slot, and what waits there, in order."""
        slot, frames = next(iter(self._waiting.items()))
        return slot, list(frames)

    def callers(self) -> list[Any]:
        """Return who waits for the end of a frame."""
        return [frame.command.reply_to for line in self._waiting.values() for frame in line]

    def check_room(self, slot: int, frame: Frame) -> None:
        """Raise ServerBusy if a frame would have to wait, and too much of its topic waits already.

        The first frame of a topic always has room: other topics have no part in what fills it.
        """
        if self.waits(slot) and not self._sizes.has_room(slot, frame.size_bytes(), BYTES_MAX):
            raise errors.ServerBusy(
                "too many messages of the topic wait in the partition to be matched with its "
                "rules. Repeat.",
                retry_after_ms=1_000,
            )

    def park(self, stage: Stage, slot: int, frame: Frame) -> None:
        """Let a frame go on in a later turn."""
        self._sizes.add(slot, frame.size_bytes())
        self._staged[slot] = self._staged.get(slot, 0) + 1
        stage.on_commit.append(partial(self._parked, slot, frame))
        stage.on_failure.append(partial(self._unstaged, slot, frame))

    def ended(self, stage: Stage, slot: int, frame: Frame, outcome: Any) -> None:
        """Answer a frame that waited and is at its end. STRICTLY AFTER the commit."""
        stage.on_commit.append(partial(self._ended, stage, slot, frame, outcome))

    def next_topic(self, stage: Stage, slot: int) -> None:
        """Let the other topics have their turn."""
        stage.on_commit.append(partial(self._rotate, slot))

    def failed(self, error: BusError) -> list[Answer]:
        """Forget all frames; return what to tell their callers: nothing more is stored."""
        waiting, self._waiting = self._waiting, {}
        for slot, line in waiting.items():
            self._sizes.add(slot, -sum(frame.size_bytes() for frame in line))
        frames = [frame for line in waiting.values() for frame in line]
        return [Answer(frame.command.reply_to, frame.refused(error)) for frame in frames]

    def _parked(self, slot: int, frame: Frame) -> None:
        self._unstage(slot)
        self._waiting.setdefault(slot, deque()).append(frame)

    def _unstaged(self, slot: int, frame: Frame) -> None:
        self._unstage(slot)
        self._sizes.add(slot, -frame.size_bytes())

    def _unstage(self, slot: int) -> None:
        self._staged[slot] -= 1
        if not self._staged[slot]:
            del self._staged[slot]

    def _ended(self, stage: Stage, slot: int, frame: Frame, outcome: Any) -> None:
        line = self._waiting[slot]
        line.remove(frame)
        if not line:
            del self._waiting[slot]
        self._sizes.add(slot, -frame.size_bytes())
        stage.answer(frame.command.reply_to, outcome)

    def _rotate(self, slot: int) -> None:
        line = self._waiting.pop(slot, None)
        if line is not None:
            self._waiting[slot] = line
