"""Forwarded messages at their destination: stored by the rules of sending, each once.

A source is a (sub-)queue in one partition's file. It has one frame on its way to a partition at a
time; frames are numbered by the opening of the source's file and within it. What is stored is
remembered by its number at the source, in the same commit, until the source reports that it has
deleted it. So a frame that comes again, in whatever cut, stores nothing twice; and one that comes
late, after a newer one, is refused whole.
"""

from collections.abc import Mapping

from bendybus.domain import bounds, errors, limits
from bendybus.domain.entity import PARTITIONS_MAX, Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError
from bendybus.partition_server.rules import publications, publish, send
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.answers import ForwardedTaken
from bendybus.partition_server.state.batch import Batch, Carried
from bendybus.partition_server.state.commands import Append, EntityRef, TakeForwarded
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.message_queue import MessageQueue
from bendybus.partition_server.state.topics import NotMatched
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.errors import StoreError
from bendybus.partition_server.store.records import ForwardedFrame


def take(turn: Turn, command: TakeForwarded) -> ForwardedTaken | None:
    """Store the messages of a frame that are not stored yet.

    None: what goes to a topic takes several turns. Raises what refuses all of it.
    """
    return publications.decide(turn, command, _take, alone=True)


def _take(turn: Turn, command: TakeForwarded) -> ForwardedTaken:
    _check_shape(command)
    forwards = turn.partition.store.forwards
    name = command.source.name()
    last = forwards.last(name)
    if (command.boot, command.sequence) <= last:
        raise errors.InvalidOperation(
            "stale frame: a newer one of its source was already received. Nothing of it is stored."
        )
    queue = send.target(turn, command.entity)
    # What has begun is stored whatever it takes: its source sends it nowhere else meanwhile, and
    # what it repeats is known.
    begun = turn.held is not None and turn.held.slot is not None
    send.check_sends(turn, queue, 0 if begun else command.deadline_mono_ms)
    known = forwards.known(name, command.counters)
    unfit = _unfit(command.batch)
    fresh = [i for i, n in enumerate(command.counters) if n not in known and i not in unfit]
    # What is transferred was measured for its destination.
    uid = "" if command.source.destination else command.source.uid
    source = turn.partition.catalogue.by_uid(uid)
    done, failures = append(
        turn, queue, command.batch.chosen(fresh), source, overtake=command.overtake
    )
    stored = [command.counters[fresh[i]] for i in range(done) if i not in failures]
    turn.stage.changes.forwarded.append(
        ForwardedFrame(
            command.source,
            last == (0, 0),
            command.boot,
            command.sequence,
            stored,
            command.settled,
            command.settled_below,
        )
    )
    reached = fresh[done] if done < len(fresh) else len(command.counters)
    failed = {i: error for i, error in unfit.items() if i < reached}
    return ForwardedTaken(reached, failed | {fresh[i]: error for i, error in failures.items()})


def append(
    turn: Turn, target: MessageQueue, batch: Batch, source: Entity | None, *, overtake: bool
) -> tuple[int, Mapping[int, BusError]]:
    """Append messages in order, each by itself; return how many are dealt with, and what failed.

    A message that there is no room for ends it, and is the first that is not dealt with, unless
    what follows may `overtake` it; so does one that meets a bug, in any case. A topic takes no more
    than one turn can publish. `source`: the entity that forwards, if it measured the messages.
    """
    count = len(batch.payloads)
    if not count:
        return 0, {}
    most = messages_max(turn, target)
    if count > most:
        count, batch = most, batch.chosen(range(most))
    mark = turn.mark()
    try:
        failed = _append(turn, target, batch, source)
    except BusError as error:
        # One message is amiss in a way that refuses a whole frame: it is tried alone.
        turn.take_back_to(mark)
        if count > 1:
            return append(turn, target, batch.chosen([0]), source, overtake=overtake)
        return 1, {0: error}
    except (StoreError, NotMatched):
        raise
    except Exception as error:  # isolate the failing message
        turn.take_back_to(mark)
        if count > 1:
            return append(turn, target, batch.chosen(range(count // 2)), source, overtake=overtake)
        turn.partition.faults.note(Sweep.FORWARD.name, target.entity.name, error)
        index = turn.partition.index
        return 0, {0: faults.internal_error(index, Sweep.FORWARD.name, target.entity.name)}
    full = min((i for i in failed if isinstance(failed[i], errors.QuotaExceeded)), default=None)
    if full is None or overtake:
        return count, failed
    turn.take_back_to(mark)
    done, before = append(turn, target, batch.chosen(range(full)), source, overtake=False)
    return done, {**before, full: failed[full]}


def messages_max(turn: Turn, target: MessageQueue) -> int:
    """Return how many messages of a frame a queue takes in one turn."""
    if target.entity.kind is not EntityKind.TOPIC:
        return limits.FRAME_MESSAGES_MAX
    rules = turn.partition.topics.of(target.entity).index.count
    return max(1, limits.FORWARDED_COPIES_A_TURN // (rules or 1))


def _append(
    turn: Turn, target: MessageQueue, batch: Batch, source: Entity | None
) -> dict[int, BusError]:
    entity, tier = target.entity, turn.partition.fingerprint.tier
    target.used(turn.now)
    ref = EntityRef(entity.uid, entity.generation)
    # A message that its source accepted may have been converted, and changed by rules: it fits what
    # takes as large ones.
    largest = entity.message_bytes_max(tier)
    measured = source is None or source.message_bytes_max(tier) <= largest
    command = Append(None, ref, batch, [1] * len(batch.payloads), measured=measured)
    return dict(publish.appender(turn, target).run(command).failures)


def _check_shape(command: TakeForwarded) -> None:
    """Raise InvalidArgument unless the columns of a frame fit together."""
    send.check_shape(command.batch, [1] * len(command.batch.payloads))
    count = len(command.batch.payloads)
    if len(command.counters) != count or len(set(command.counters)) != count:
        raise errors.InvalidArgument("counters", f"must be {count} different numbers.")
    source = command.source
    bounds.check_text("source.uid", source.uid, bounds.UID_CHARS_MAX)
    bounds.check_text("source.destination", source.destination, bounds.UID_CHARS_MAX)
    bounds.check_number("source.partition", source.partition, PARTITIONS_MAX - 1)
    bounds.check_number("source.incarnation", len(source.incarnation), bounds.INCARNATION_BYTES_MAX)
    for name in ("boot", "sequence", "settled_below", "deadline_mono_ms"):
        bounds.check_number(name, getattr(command, name), bounds.NUMBER_MAX)
    bounds.check_number("settled", len(command.settled), bounds.NUMBERS_A_CALL_MAX)
    for number in (*command.counters, *command.settled):
        bounds.check_number("counters", number, bounds.NUMBER_MAX)


def _unfit(batch: Batch) -> dict[int, BusError]:
    """Return the messages that take along what none can have, each with why."""
    found: dict[int, BusError] = {}
    for i, carried in enumerate(batch.carried):
        try:
            _check_carried(carried)
        except BusError as error:
            found[i] = error
    return found


def _check_carried(carried: Carried) -> None:
    """Raise InvalidArgument for what no message can have been given."""
    bounds.check_number(
        "changed_properties", len(carried.changed_properties or b""), limits.HEADER_BYTES_MAX
    )
    for name, most in (
        ("dead_letter_reason", limits.DEAD_LETTER_TEXT_CHARS_MAX),
        ("dead_letter_error_description", limits.DEAD_LETTER_TEXT_CHARS_MAX),
        ("dead_letter_source", limits.ENTITY_PATH_CHARS_MAX),
    ):
        bounds.check_number(name, len(getattr(carried, name) or ""), most)
    number = carried.enqueued_sequence_number
    bounds.check_number("enqueued_sequence_number", number, bounds.NUMBER_MAX)
    bounds.check_number("hops", carried.hops, limits.FORWARD_HOPS_MAX)
