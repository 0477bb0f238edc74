"""Frames for topics: their groups meet the rules, and are stored, over as many turns as it takes.

    frame ──► groups meet the rules ──► groups are stored ──► … ──► one answer, at the end
              in steps, stops with        some in each commit
              the turn's budget

Each commit notes the outcome of its groups as a part of the frame; see `producer_memory`. So that a
frame has a bounded number of parts, each but the last has at least a share of its groups. A group
is stored whole: what it makes is bounded by `publish.check_copies`.
"""

from typing import Final

from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import send
from bendybus.partition_server.rules.publisher import Publisher
from bendybus.partition_server.state import faults, producer_memory, producer_outcomes
from bendybus.partition_server.state.answers import Appended, Failed
from bendybus.partition_server.state.commands import Append
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.publications import Begun, Frame
from bendybus.partition_server.state.turn import Turn

# Parts of one frame that are stored by one try of it. Two tries have room in what is remembered.
STEPS_MAX: Final = producer_memory.PARTS_MAX // 2


def publish(turn: Turn, command: Append, topic: MessageQueue) -> Appended | None:
    """Publish a frame; None: it goes on in a later turn. Raises what refuses all of it."""
    publications, frame = turn.partition.publications, Frame(command)
    publications.check_room(topic.slot, frame)
    outcome: Appended | None = None
    if not publications.waits(topic.slot) and not turn.budget.spent():
        outcome = _begin(turn, frame, topic) or _go_on(turn, frame, topic)
    if outcome is None:
        publications.park(turn.stage, topic.slot, frame)
    return outcome


def sweep(turn: Turn) -> None:
    """Go on with the frames of one topic, in their order."""
    partition, least = turn.partition, True
    publications = partition.publications
    slot, frames = publications.first()
    for frame in frames:
        if turn.budget.spent() and not least:
            break
        least = False
        topic = partition.queues.at(slot)
        if topic is None:
            gone = errors.EntityNotFound("the topic was deleted.")
            publications.ended(turn.stage, slot, frame, frame.refused(gone))
            continue
        outcome = _next_careful(turn, frame, topic) if turn.careful else _next(turn, frame, topic)
        if outcome is None:
            break
        publications.ended(turn.stage, slot, frame, outcome)
    publications.next_topic(turn.stage, slot)


def _next_careful(turn: Turn, frame: Frame, topic: MessageQueue) -> Appended | Failed | None:
    """Take the next step of a frame; if that raises, the frame ends here."""
    outcomes: list[Appended | Failed | None] = []
    # What it has met may be half done.
    frame.matched, frame.matching = [], None
    failed = turn.attempt(
        Sweep.PUBLISH.name, topic.entity.name, lambda: outcomes.append(_next(turn, frame, topic))
    )
    if failed is None:
        return outcomes[0]
    name = topic.entity.name
    return frame.refused(faults.internal_error(turn.partition.index, Sweep.PUBLISH.name, name))


def _next(turn: Turn, frame: Frame, topic: MessageQueue) -> Appended | Failed | None:
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


def _begin(turn: Turn, frame: Frame, topic: MessageQueue) -> Appended | None:
    """Find what is to be done; return the outcome if that is nothing. Raises what refuses it."""
    command = frame.command
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
    frame.begun = Begun(known, fresh)
    return None


def _go_on(turn: Turn, frame: Frame, topic: MessageQueue) -> Appended | None:
    """Do what the turn's budget allows; return the outcome of the frame at its end."""
    begun = frame.begun
    assert begun is not None, "a frame begins first"
    units = list(producer_outcomes.units(begun.fresh))
    _match(turn, frame, topic, begun, units)
    end = begun.done + len(frame.matched)
    if end < len(units) and len(frame.matched) * STEPS_MAX < len(units):
        return None
    after = _store(turn, frame, topic, begun, units[begun.done : end])
    if end == len(units):
        return after.ended()
    turn.stage.on_commit.append(lambda: _stored(frame, after))
    return None


def _stored(frame: Frame, after: Begun) -> None:
    frame.begun, frame.matched = after, []


def _match(
    turn: Turn, frame: Frame, topic: MessageQueue, begun: Begun, units: list[tuple[int, int]]
) -> None:
    """Let groups meet the rules until the budget is spent; at least a step."""
    version = turn.partition.topics.of(topic.entity).version
    if frame.version != version:
        # The rules have changed: what met the old ones, and is not stored, meets the new ones.
        frame.version, frame.matched, frame.matching = version, [], None
    publisher = Publisher(turn, topic)
    for unit in units[begun.done + len(frame.matched) :]:
        if frame.matching is None:
            frame.matching = publisher.matching(begun.fresh.batch, *unit)
        while True:
            try:
                next(frame.matching)
            except StopIteration as end:
                frame.matched.append(end.value)
                frame.matching = None
                turn.budget.spend(end.value.added_bytes)
                break
            if turn.budget.spent():
                return
        if turn.budget.spent():
            return


def _store(
    turn: Turn, frame: Frame, topic: MessageQueue, begun: Begun, units: list[tuple[int, int]]
) -> Begun:
    """Store the groups that have met the rules; return how far the frame is then."""
    turn.stage.touch(topic)
    publisher = Publisher(turn, topic)
    fresh, first = begun.fresh, begun.done
    for group, (span, matched) in enumerate(zip(units, frame.matched, strict=True), first):
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
        partition.due.mark(turn.stage, turn.now)
    before = begun.outcome
    outcome = Appended(
        [*before.numbers, *made.numbers],
        [*before.duplicates, *made.duplicates],
        [*before.failures, *made.failures],
    )
    return Begun(begun.known, fresh, end, outcome)
