"""What stores messages in a topic and did not fit into one turn; the rule is `rules.publications`.

    frame (of a sender, with a fence or without)   stored group by group, in several commits
    transaction, forwarded frame                   stored whole, once all of it has met the rules
    scheduled messages that are due,               work of sweeps, which nobody waits for: once in
    a look at a queue that forwards                a line each, by its key

Each is answered once, at its end. What comes to a topic while something of it waits, waits behind
it, whatever way it came: messages keep their order, and a repeat finds what the first try has
stored.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from bendybus.domain import errors, limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.state import producer_memory
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.commands import Append, SendFenced, TakeForwarded, Transact
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.producer_memory import Known
from bendybus.partition_server.state.shares import Shares
from bendybus.partition_server.state.stage import Answer, Stage
from bendybus.partition_server.state.topics import Matchings

if TYPE_CHECKING:
    from bendybus.partition_server.state.turn import Turn

# What all frames that wait may take.
BYTES_MAX: Final = 64 * limits.MB
# The first of a topic waits beyond that, unless all take more than this.
FIRST_BYTES_MAX: Final = 3 * BYTES_MAX
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


OutcomeT = TypeVar("OutcomeT", covariant=True)


@dataclass(slots=True, eq=False)
class Held(Generic[OutcomeT]):
    """Work that is done whole, once all of its messages have met the rules."""

    # (turn) → its outcome, not None. Raises NotMatched, or what refuses it.
    work: Callable[["Turn"], OutcomeT]
    # None: a sweep's, which has a key.
    command: Transact | TakeForwarded | None = None
    key: tuple[str, int] | None = None
    # It reads the store before it decides: it has a stage of its own.
    alone: bool = False
    # Of the topic in whose line it is.
    slot: int | None = None
    matchings: Matchings = field(default_factory=Matchings)

    @property
    def reply_to(self) -> Caller:
        """Who waits for its end, None if nobody does."""
        return None if self.command is None else self.command.reply_to

    def size_bytes(self) -> int:
        """Return what it takes in memory, roughly."""
        batches = () if self.command is None else self.command.batches()
        return FRAME_BYTES + sum(batch.content_bytes() for batch in batches)

    def refused(self, error: BusError) -> Failed:
        """Return the outcome if nothing is stored."""
        return Failed(error)


@dataclass(slots=True, eq=False)
class Frame:
    """A frame on its way."""

    command: Append | SendFenced
    begun: Begun | None = None
    alone = False
    slot: int | None = None
    # Of groups after those that are done.
    matchings: Matchings = field(default_factory=Matchings)

    @property
    def key(self) -> None:
        """It is no work of a sweep."""

    @property
    def reply_to(self) -> Caller:
        """Who waits for its end."""
        return self.command.reply_to

    def begin(self, stage: Stage, begun: Begun) -> None:
        """Note what there is to do; it may follow from what this stage decided before."""
        stage.journal.note(self.begin_again)
        self.begun = begun

    def begin_again(self) -> None:
        """Let the next turn find what there is to do."""
        self.begun, self.matchings = None, Matchings()

    def size_bytes(self) -> int:
        """Return what the frame takes in memory, roughly."""
        return FRAME_BYTES + self.command.batch.content_bytes()

    def refused(self, error: BusError) -> Appended | Failed:
        """Return the outcome of a frame of which nothing more is stored."""
        return Failed(error) if self.begun is None else self.begun.refused(error)


Waiting = Frame | Held[object]


class Publications:
    """What waits for its next step, by slot of its topic."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Waiting]] = {}
        # What the stage that is being decided adds, by slot: how many.
        self._staged: dict[int, int] = {}
        # Of sweeps, with those of the stage.
        self._keys: set[tuple[str, int]] = set()
        # By slot, with those of the stage.
        self._sizes: Shares[int] = Shares()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def waits(self, slot: int) -> bool:
        """Whether something of a topic waits."""
        return slot in self._waiting or slot in self._staged

    def holds(self, key: tuple[str, int] | None) -> bool:
        """Whether the work of a sweep waits in a line."""
        return key in self._keys

    def first(self) -> tuple[int, list[Waiting]]:
        """Return the topic whose turn it is, by slot, and what waits there, in order."""
        slot, line = next(iter(self._waiting.items()))
        return slot, list(line)

    def callers(self) -> list[Caller]:
        """Return who waits for the end of something."""
        waiting = (each for line in self._waiting.values() for each in line)
        return [each.reply_to for each in waiting if each.key is None]

    def check_room(self, slot: int, waiting: Waiting) -> None:
        """Raise ServerBusy if something would have to wait, and too much of its topic does.

        The first of a topic has room where its share would be none: other topics have no part in
        what fills it; but there may be 10,000 topics, so not without end. The work of sweeps always
        has room: there is one for each queue.
        """
        if waiting.key is not None:
            return
        if not self.waits(slot):
            full = self._sizes.total > FIRST_BYTES_MAX
        else:
            full = not self._sizes.has_room(slot, waiting.size_bytes(), BYTES_MAX)
        if full:
            raise errors.ServerBusy(
                "the publish queue of the topic is full in this partition. Retry.",
                retry_after_ms=1_000,
            )

    def park(self, stage: Stage, slot: int, waiting: Waiting) -> None:
        """Let something go on in a later turn."""
        self._sizes.add(slot, waiting.size_bytes())
        self._staged[slot] = self._staged.get(slot, 0) + 1
        if waiting.key is not None:
            self._keys.add(waiting.key)
        stage.journal.later(self._parked, slot, waiting)
        stage.journal.note(self._unstaged, slot, waiting)

    def move(self, stage: Stage, slot: int, waiting: Waiting) -> None:
        """Let something go on in the line of another topic."""
        stage.journal.later(self._moved, slot, waiting)

    def ended(self, stage: Stage, slot: int, waiting: Waiting, outcome: object) -> None:
        """Answer what waited and is at its end."""
        stage.journal.later(self._ended, stage, slot, waiting, outcome)

    def next_topic(self, stage: Stage, slot: int) -> None:
        """Let the other topics have their turn."""
        stage.journal.later(self._rotate, slot)

    def failed(self, error: BusError) -> list[Answer]:
        """Forget what callers wait for; return what to tell them: nothing more is stored."""
        answers = []
        for slot, line in list(self._waiting.items()):
            for waiting in list(line):
                if waiting.key is None:
                    self._leave(slot, waiting)
                    answers.append(Answer(waiting.reply_to, waiting.refused(error)))
        return answers

    def _parked(self, slot: int, waiting: Waiting) -> None:
        self._unstage(slot)
        waiting.slot = slot
        self._waiting.setdefault(slot, deque()).append(waiting)

    def _moved(self, slot: int, waiting: Waiting) -> None:
        assert waiting.slot is not None, "it waits in a line"
        self._leave(waiting.slot, waiting)
        waiting.slot = slot
        self._waiting.setdefault(slot, deque()).append(waiting)
        self._sizes.add(slot, waiting.size_bytes())
        if waiting.key is not None:
            self._keys.add(waiting.key)

    def _unstaged(self, slot: int, waiting: Waiting) -> None:
        self._unstage(slot)
        self._sizes.add(slot, -waiting.size_bytes())
        if waiting.key is not None:
            self._keys.discard(waiting.key)

    def _unstage(self, slot: int) -> None:
        self._staged[slot] -= 1
        if not self._staged[slot]:
            del self._staged[slot]

    def _ended(self, stage: Stage, slot: int, waiting: Waiting, outcome: object) -> None:
        self._leave(slot, waiting)
        if waiting.key is None:
            stage.answer(waiting.reply_to, outcome)

    def _leave(self, slot: int, waiting: Waiting) -> None:
        line = self._waiting[slot]
        line.remove(waiting)
        if not line:
            del self._waiting[slot]
        self._sizes.add(slot, -waiting.size_bytes())
        if waiting.key is not None:
            self._keys.discard(waiting.key)

    def _rotate(self, slot: int) -> None:
        line = self._waiting.pop(slot, None)
        if line is not None:
            self._waiting[slot] = line
