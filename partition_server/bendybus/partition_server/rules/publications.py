"""Storing in topics over as many turns as it takes, whatever way messages come.

    command or sweep ──► decided, its messages meet the rules in steps
                              ├── all have met them ──► stored, in this commit
                              └── NotMatched ──► taken back; it waits in the line of its topic
                                                 with what was met, and is decided again there

What waits in a line keeps its order, and the lines take turns. Only frames of senders store what
they have so far.

Frames of senders (`publish`): their groups meet the rules, and are stored, in steps.

    frame ──► groups meet the rules ──► groups are stored ──► … ──► one answer, at the end
              in steps, stops with        some in each commit
              the turn's budget

Each commit notes the outcome of its groups as a part of the frame; see `producer_memory`. So that a
frame has a bounded number of parts, each but the last has at least a share of its groups. A group
is stored whole: what it makes is bounded by `publish.check_copies`. So is a frame with a fence,
which is about all of it: it meets the rules over several turns, and is stored in one.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar, overload

from bendybus.domain import errors, limits
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import fenced_send, send
from bendybus.partition_server.rules import publish as publish_rules
from bendybus.partition_server.rules.publish import Matched, Publisher
from bendybus.partition_server.state import faults, producer_memory, producer_outcomes
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.commands import Append, SendFenced, TakeForwarded, Transact
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.pipeline_commands import FencedStored
from bendybus.partition_server.state.publications import Begun, Frame, Held, Waiting
from bendybus.partition_server.state.topics import NotMatched
from bendybus.partition_server.state.turn import Turn

T = TypeVar("T")
C = TypeVar("C", Transact, TakeForwarded)
Outcome = Appended | FencedStored | Failed
# Parts of one frame that are stored by one try of it. Two tries have room in what is remembered.
STEPS_MAX: Final = producer_memory.PARTS_MAX // 2


def decide(
    turn: Turn, command: C, work: Callable[[Turn, C], T], *, alone: bool = False
) -> T | None:
    """Decide on a command that may store messages in a topic; None: that goes on in a later turn.

    Raises what refuses it.
    """
    queue = turn.partition.queues.of(command.entity.uid, SubQueue.MAIN)
    if queue is None or queue.entity.kind is not EntityKind.TOPIC:
        return work(turn, command)
    held = Held(lambda later: work(later, command), command, alone=alone)
    return attempt(turn, held)


def attempt(turn: Turn, held: Held[T], work: Callable[[Turn], T] | None = None) -> T | None:
    """Do the work, or for now another one in its place; None: it goes on in a later turn.

    Raises what refuses it, with nothing decided.
    """
    publications, mark = turn.partition.publications, turn.mark()
    outer, turn.held = turn.held, held
    held.matchings.begin()
    try:
        outcome = (work or held.work)(turn)
    except NotMatched as waits:
        turn.take_back_to(mark)
        if held.slot is None:
            publications.check_room(waits.slot, held)
            publications.park(turn.stage, waits.slot, held)
        elif held.slot != waits.slot:
            # It goes elsewhere by now.
            publications.move(turn.stage, waits.slot, held)
        return None
    except BusError:
        turn.take_back_to(mark)
        raise
    finally:
        turn.held = outer
    return outcome


def sweep(turn: Turn) -> None:
    """Go on with what waits for one topic, in its order."""
    publications = turn.partition.publications
    slot, line = publications.first()
    for index, waiting in enumerate(line):
        if index and (waiting.alone or turn.budget.spent()):
            break
        outcome = _next(turn, waiting, slot)
        if outcome is None:
            break
        publications.ended(turn.stage, slot, waiting, outcome)
        if waiting.alone:
            break
    publications.next_topic(turn.stage, slot)


def _next(turn: Turn, waiting: Waiting, slot: int) -> object:
    """Take the next step of what waits; return its outcome, None: it goes on in a later turn."""
    if not turn.careful or waiting.key is not None:
        # The work of a sweep puts itself off if it raises.
        return _step(turn, waiting, slot)
    outcomes: list[object] = []
    topic = turn.partition.queues.at(slot)
    name = topic.entity.name if topic else ""
    if turn.attempt(Sweep.PUBLISH.name, name, lambda: outcomes.append(_step(turn, waiting, slot))):
        error = faults.internal_error(turn.partition.index, Sweep.PUBLISH.name, name)
        return waiting.refused(error)
    return outcomes[0]


def _step(turn: Turn, waiting: Waiting, slot: int) -> object:
    if isinstance(waiting, Frame):
        return next_step(turn, waiting, slot)
    try:
        return attempt(turn, waiting)
    except BusError as error:
        if waiting.key is not None:
            raise
        return waiting.refused(error)


@overload
def publish(turn: Turn, command: Append, topic: MessageQueue) -> Appended | None: ...


@overload
def publish(
    turn: Turn, command: SendFenced, topic: MessageQueue
) -> FencedStored | Failed | None: ...


def publish(turn: Turn, command: Append | SendFenced, topic: MessageQueue) -> Outcome | None:
    """Publish a frame; None: it goes on in a later turn. Raises what refuses all of it."""
    publications, frame = turn.partition.publications, Frame(command)
    publications.check_room(topic.slot, frame)
    outcome: Outcome | None = None
    if not publications.waits(topic.slot) and not turn.budget.spent():
        outcome = _begin(turn, frame, topic) or _go_on(turn, frame, topic)
    if outcome is None:
        publications.park(turn.stage, topic.slot, frame)
    return outcome


def next_step(turn: Turn, frame: Frame, slot: int) -> Outcome | None:
    """Take the next step of a frame that waits; None: it goes on in a later turn."""
    topic = turn.partition.queues.at(slot)
    if topic is None:
        return frame.refused(errors.EntityNotFound("the topic was deleted."))
    try:
        if frame.begun is None:
            # The entity may have changed since the frame came.
            send.target(turn, frame.command.entity)
            known = _begin(turn, frame, topic)
            if known is not None:
                return known
        else:
            send.check_sends(turn, topic, frame.command.deadline_mono_ms)
    except BusError as error:
        return frame.refused(error)
    return _go_on(turn, frame, topic)


def _begin(turn: Turn, frame: Frame, topic: MessageQueue) -> Outcome | None:
    """Find what is to be done; return the outcome if that is nothing. Raises what refuses it."""
    command = frame.command
    if isinstance(command, SendFenced):
        repeated = fenced_send.begin(turn, command, topic)
        if repeated == len(command.ordinals):
            return FencedStored(0, repeated, 0)
        frame.begin(turn.stage, Begun(None, fenced_send.fresh(command, repeated)))
        return None
    known = turn.partition.producers.find(command, turn.now)
    if known is not None and known.rest is None:
        return known.outcome
    # A repeat of a part of which some units are known stores the others.
    fresh = command if known is None or known.rest is None else known.rest
    try:
        send.check_sends(turn, topic, fresh.deadline_mono_ms)
    except BusError as error:
        if known is None:
            raise
        return producer_memory.refuse_rest(command, known, error)
    send.check_shape(fresh.batch, fresh.group_sizes)
    frame.begin(turn.stage, Begun(known, fresh))
    return None


def _go_on(turn: Turn, frame: Frame, topic: MessageQueue) -> Outcome | None:
    """Do what the turn's budget allows; return the outcome of the frame at its end."""
    begun = frame.begun
    assert begun is not None, "a frame begins first"
    units = list(producer_outcomes.units(begun.fresh))
    matched = _match(turn, frame, topic, begun, units)
    if isinstance(frame.command, SendFenced):
        try:
            return _store_fenced(turn, frame, begun.fresh, topic, matched)
        except BusError as error:
            return frame.refused(error)
    end = begun.done + len(matched)
    if end < len(units) and len(matched) * STEPS_MAX < len(units):
        return None
    after = _store(turn, topic, begun, units[begun.done : end], matched)
    if end == len(units):
        return after.ended()
    turn.stage.journal.later(_stored, frame, after)
    return None


def _store_fenced(
    turn: Turn, frame: Frame, fresh: Append, topic: MessageQueue, matched: list[Matched]
) -> FencedStored | None:
    """Store a frame with its fence once all of it has met the rules. Raises what refuses it."""
    command = frame.command
    assert isinstance(command, SendFenced), "only these have fences"
    made = sum(each.copies for each in matched), sum(each.added_bytes for each in matched)
    publish_rules.check_copies(topic, *made, limits.PUBLISHED_COPIES_MAX)
    units = list(producer_outcomes.units(fresh))
    if len(matched) < len(units):
        return None
    # A call without messages may have moved the fence meanwhile.
    if fenced_send.begin(turn, command, topic) + len(units) != len(command.ordinals):
        frame.begin_again()
        return None
    turn.stage.touch(topic)
    mark, publisher = turn.mark(), Publisher(turn, topic, fresh)
    for group, (span, each) in enumerate(zip(units, matched, strict=True)):
        publisher.append_matched(fresh.batch, group, span, each)
    return fenced_send.move_fence(turn, command, topic, mark, publisher.outcome())


def _stored(frame: Frame, after: Begun) -> None:
    assert frame.begun is not None
    frame.matchings.stored(after.done - frame.begun.done)
    frame.begun = after


def _match(
    turn: Turn, frame: Frame, topic: MessageQueue, begun: Begun, units: list[tuple[int, int]]
) -> list[Matched]:
    """Let groups meet the rules until the budget is spent, at least a step; return those that
    have met all of them.
    """
    generation = topic.slot, turn.partition.topics.of(topic.entity).version
    publisher, matchings = Publisher(turn, topic, begun.fresh), frame.matchings
    matchings.begin()
    matched: list[Matched] = []
    for group in range(begun.done, len(units)):
        match = partial(publisher.matching, begun.fresh.batch, *units[group])
        if matchings.moved and turn.budget.spent():
            break
        try:
            made = matchings.next(generation, group, match, turn.budget)
        except NotMatched:
            break
        if matchings.moved:
            turn.budget.spend(made.added_bytes)
        matched.append(made)
    return matched


def _store(
    turn: Turn,
    topic: MessageQueue,
    begun: Begun,
    units: list[tuple[int, int]],
    met: list[Matched],
) -> Begun:
    """Store the groups that have met the rules; return how far the frame is then."""
    turn.stage.touch(topic)
    publisher = Publisher(turn, topic, begun.fresh)
    fresh, first = begun.fresh, begun.done
    for group, (span, matched) in enumerate(zip(units, met, strict=True), first):
        publisher.append_matched(fresh.batch, group, span, matched)
    made, end = publisher.outcome(), first + len(units)
    whole = not first and end == len(fresh.group_sizes or (0,))
    part = fresh if whole else producer_memory.pick(fresh, range(first, end))
    failures = [(group - first, error) for group, error in made.failures]
    flags = made.duplicates if any(made.duplicates) else ()
    partition, changes = turn.partition, turn.stage.changes
    partition.producers.remember(part, Appended(made.numbers, flags, failures), turn.now, changes)
    if changes.producers_forgotten and not turn.expiry_held:
        # The next opening compares its clock with the one that says when this was forgotten.
        partition.due.mark(turn.stage.changes, turn.now)
    before = begun.outcome
    outcome = Appended(
        [*before.numbers, *made.numbers],
        [*before.duplicates, *made.duplicates],
        [*before.failures, *made.failures],
    )
    return Begun(begun.known, fresh, end, outcome)
