"""Storing in topics over as many turns as it takes, whatever way messages come.

    command or sweep ──► decided, its messages meet the rules in steps
                              ├── all have met them ──► stored, in this commit
                              └── NotMatched ──► taken back; it waits in the line of its topic
                                                 with what was met, and is decided again there

What waits in a line keeps its order, and the lines take turns. Only frames of senders store what
they have so far: see `publish_frames`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.domain.sub_queue import SubQueue
from bendybus.partition_server.rules import publish_frames
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.commands import TakeForwarded, Transact
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.matchings import NotMatched
from bendybus.partition_server.state.publications import Frame, Held, Waiting
from bendybus.partition_server.state.turn import Turn

T = TypeVar("T")
C = TypeVar("C", Transact, TakeForwarded)


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
    found: T | None = attempt(turn, held)
    return found


def attempt(turn: Turn, held: Held, work: Callable[[Turn], Any] | None = None) -> Any:
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


def _next(turn: Turn, waiting: Waiting, slot: int) -> Any:
    """Take the next step of what waits; return its outcome, None: it goes on in a later turn."""
    if not turn.careful or waiting.key is not None:
        # The work of a sweep puts itself off if it raises.
        return _step(turn, waiting, slot)
    outcomes: list[Any] = []
    topic = turn.partition.queues.at(slot)
    name = topic.entity.name if topic else ""
    if turn.attempt(Sweep.PUBLISH.name, name, lambda: outcomes.append(_step(turn, waiting, slot))):
        error = faults.internal_error(turn.partition.index, Sweep.PUBLISH.name, name)
        return waiting.refused(error)
    return outcomes[0]


def _step(turn: Turn, waiting: Waiting, slot: int) -> Any:
    if isinstance(waiting, Frame):
        return publish_frames.next_step(turn, waiting, slot)
    try:
        return attempt(turn, waiting)
    except BusError as error:
        if waiting.key is not None:
            raise
        return waiting.refused(error)
