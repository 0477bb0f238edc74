"""What must hold of every history. Pure: no bus, no clock.

Rules, by the name under which a violation is reported:

    lost        its storage was acknowledged, and no copy was ever settled or cancelled; the run's
                last phase receives and completes all that is there, so this one is gone
    denied      the same, but a settlement or a cancellation was tried, and reported as definitely
                not done: it was
    returned    delivered under a lock that began after its settlement was acknowledged; without
                a lock of its own, by a call that began after it. A delivery that was held on its
                way for longer than a lock lasts comes later, and is not meant
    stale       handed over when its lock had ended, by the machine's clock: another receiver may
                have completed it meanwhile. Time in which the load stood still itself, as it does
                for seconds with hundreds of senders, is its own
    refused     a definite failure was reported, and the message was delivered all the same
    doubled     one message, sent by one call, has two numbers in one place
    early       delivered before it was due
    cancelled   delivered though its cancellation was acknowledged
    renumbered  one number of a place names two messages
    order       a message of a key has a lower number than one acknowledged before its send began,
                or another partition
    overtaken   a message of a session was completed by a call that began after a later message of
                the session was completed
    halved      a transaction was done in part: a request was completed without its answer, has two
                answers, was delivered again after its answer, or was answered before the commit
    torn        a batch that failed definitely, or is atomic, was delivered in part only
    hung        a call took longer than any time-out allows
    counts      the bus counts messages after all were completed
    stuck       the bus still gives messages, or does not answer, when all faults are long mended

What must hold of those who hold sessions is in `lease_checking`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests import sequence_numbers
from tests.chaos.history import LOCK_S, Item, Kind, Operation, Outcome
from tests.chaos.violation import Violation

SENT = (Kind.SEND, Kind.SCHEDULE)
GIVEN = (Kind.RECEIVE, Kind.TAKE)
# What takes a message out of where it was.
SETTLED = (Kind.COMPLETE, Kind.DEFER, Kind.DEAD_LETTER)
# No call may take longer: what has no time-out of its own has the 60 s of every operation.
CALL_S_MAX = 65.0
# What a client knows of the bus's clock is as old as a round trip, and a busy machine is slow.
STALE_S = 1.0


@dataclass(frozen=True, slots=True)
class Excuses:
    """Faults that the bus itself reported, and stalls of the load.

    `possible_duplicates`: the messages of which it told their senders that they may be stored
    twice. `takes_lost`: how many messages of receive-and-delete may be lost, because a fault hit
    calls under way. `stalls`: from when to when the load stood still.
    """

    possible_duplicates: frozenset[str] = frozenset()
    takes_lost: int = 0
    stalls: Sequence[tuple[float, float]] = ()

    def stood_still_s(self, from_s: float, to_s: float) -> float:
        """Return for how long of that time the load stood still."""
        return sum(max(0.0, min(to_s, end) - max(from_s, begin)) for begin, end in self.stalls)


def check(operations: Sequence[Operation], excuses: Excuses = Excuses()) -> list[Violation]:
    """Return every violation, worst rules first."""
    facts = _Facts(operations)
    found: list[Violation] = []
    found += _lost(facts, excuses)
    found += _returned(facts)
    found += _stale(facts, excuses)
    found += _refused(facts)
    found += _doubled(facts, excuses)
    found += _early(facts)
    found += _cancelled(facts, excuses)
    found += _renumbered(facts)
    found += _order(facts)
    found += _overtaken(facts)
    found += _halved(facts)
    found += _torn(facts)
    found += _hung(operations)
    return found


class _Facts:
    """A history, by message."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda each: each.began_s)
        self.sent: dict[str, Operation] = {}
        self.given: dict[str, list[tuple[int, Operation]]] = defaultdict(list)
        self.settled: dict[str, list[tuple[int, Operation]]] = defaultdict(list)
        self.denied: dict[str, Operation] = {}
        self.cancels: dict[str, list[Operation]] = defaultdict(list)
        for each in self.operations:
            for item in each.items:
                if each.kind in SENT:
                    self.sent[item.body] = each
                elif each.kind in GIVEN:
                    self.given[item.body].append((item.number, each))
                elif each.kind in SETTLED and each.outcome is not Outcome.FAILED:
                    self.settled[item.body].append((item.number, each))
                elif each.kind in SETTLED or (
                    each.kind is Kind.CANCEL and each.outcome is Outcome.FAILED
                ):
                    self.denied[item.body] = each
                elif each.kind is Kind.CANCEL and each.outcome is not Outcome.FAILED:
                    self.cancels[item.body].append(each)

    def numbers(self, body: str) -> set[int]:
        """Return the numbers under which a message was given where it was sent to.

        A scheduled message gets another when it is due, a dead-lettered one in the sub-queue.
        """
        place = self.sent[body].place if body in self.sent else ""
        return {number for number, each in self.given.get(body, ()) if each.place == place}


def _lost(facts: _Facts, excuses: Excuses) -> list[Violation]:
    found, taken = [], 0
    for body, sent in facts.sent.items():
        if sent.outcome is not Outcome.OK or facts.cancels.get(body):
            continue
        done = any(each.kind is Kind.COMPLETE for _, each in facts.settled.get(body, ()))
        done = done or any(each.kind is Kind.TAKE for _, each in facts.given.get(body, ()))
        if done:
            continue
        if sent.place.startswith("taken") and taken < excuses.takes_lost:
            taken += 1
            continue
        if body in facts.denied:
            denied = facts.denied[body]
            text = f"{denied.kind} was reported as not done: {denied.error[:60]}"
            found.append(Violation("denied", body, denied.items[0].number, text))
            continue
        last = facts.given.get(body)
        seen = f"last given at {last[-1][0]}, never settled" if last else "never delivered"
        found.append(Violation("lost", body, 0, f"acknowledged, {seen}"))
    return found


def _returned(facts: _Facts) -> list[Violation]:
    found = []
    for body, given in facts.given.items():
        ends = [
            (number, each.place, each.ended_s)
            for number, each in facts.settled.get(body, ())
            if each.outcome is Outcome.OK
        ]
        ends += [(number, each.place, each.ended_s) for number, each in given if _takes(each)]
        for number, each in given:
            began_s = _began_s(each, Item(body, number))
            late = any(n == number and p == each.place and began_s > s for n, p, s in ends)
            if late and not _by_number(each):
                found.append(Violation("returned", body, number, f"given again by {each.task}"))
    return found


def _stale(facts: _Facts, excuses: Excuses) -> list[Violation]:
    found = []
    for each in facts.operations:
        if each.kind is not Kind.RECEIVE or each.outcome is not Outcome.OK:
            continue
        for item in each.items:
            late_s = each.ended_s - item.locked_s - LOCK_S
            late_s -= excuses.stood_still_s(item.locked_s, each.ended_s)
            if item.locked_s and late_s > STALE_S:
                text = f"given to {each.task} {late_s:.1f} s after the end of its lock"
                found.append(Violation("stale", item.body, item.number, text))
    return found


def _began_s(each: Operation, given: Item) -> float:
    """Return when a message was given: when its lock began, if it has one."""
    return next(item.locked_s for item in each.items if item == given) or each.began_s


def _takes(each: Operation) -> bool:
    return each.kind is Kind.TAKE and each.outcome is Outcome.OK


def _by_number(each: Operation) -> bool:
    """Whether a receive asked for deferred messages: those are given after they were deferred."""
    return each.key == "deferred"


def _refused(facts: _Facts) -> list[Violation]:
    return [
        Violation("refused", body, numbers[0], f"reported as not stored: {sent.error}")
        for body, sent in facts.sent.items()
        if sent.outcome is Outcome.FAILED and (numbers := sorted(facts.numbers(body)))
    ]


def _doubled(facts: _Facts, excuses: Excuses) -> list[Violation]:
    found = []
    for body, sent in facts.sent.items():
        numbers = sorted(facts.numbers(body))
        # Who was told "unknown" knows that there may be any number of copies.
        told = sent.outcome is Outcome.UNKNOWN or body in excuses.possible_duplicates
        if len(numbers) > 1 and not told:
            text = f"has the numbers {', '.join(map(str, numbers))}"
            found.append(Violation("doubled", body, numbers[1], text))
    return found


def _early(facts: _Facts) -> list[Violation]:
    return [
        Violation("early", body, number, f"given {sent.due_s - each.ended_s:.3f} s before its time")
        for body, sent in facts.sent.items()
        for number, each in facts.given.get(body, ())
        if sent.due_s and each.ended_s < sent.due_s
    ]


def _cancelled(facts: _Facts, excuses: Excuses) -> list[Violation]:
    found = []
    for body, cancels in facts.cancels.items():
        cancelled = {
            sequence_numbers.partition_of(item.number)
            for each in cancels
            if each.outcome is Outcome.OK
            for item in each.items
            if item.body == body
        }
        given = [number for number, _ in facts.given.get(body, ())]
        if body in excuses.possible_duplicates:
            # The copy that may be in another partition was not cancelled: nobody knows its number.
            given = [each for each in given if sequence_numbers.partition_of(each) in cancelled]
        if cancelled and given and facts.sent[body].outcome is Outcome.OK:
            found.append(Violation("cancelled", body, given[0], "given though it was cancelled"))
    return found


def _renumbered(facts: _Facts) -> list[Violation]:
    names: dict[tuple[str, int], str] = {}
    found = []
    for body, given in facts.given.items():
        for number, each in given:
            first = names.setdefault((each.place, number), body)
            if first != body:
                found.append(Violation("renumbered", body, number, f"also names {first}"))
    return found


def _order(facts: _Facts) -> list[Violation]:
    found: list[Violation] = []
    keys: dict[tuple[str, str], list[tuple[Operation, int, str]]] = defaultdict(list)
    for body, sent in facts.sent.items():
        if sent.key and sent.kind is Kind.SEND and sent.outcome is Outcome.OK:
            keys[sent.place, sent.key] += [(sent, n, body) for n in facts.numbers(body)]
    for (_, key), known in keys.items():
        known.sort(key=lambda each: each[0].began_s)
        partitions = {sequence_numbers.partition_of(number) for _, number, _ in known}
        if len(partitions) > 1:
            found.append(Violation("order", known[0][2], 0, f"{key} is in {sorted(partitions)}"))
            continue
        acknowledged: list[tuple[float, int, str]] = []
        for sent, number, body in known:
            # Of all whose acknowledgement came before this send began.
            before = max((n for s, n, _ in acknowledged if s < sent.began_s), default=0)
            if number < before:
                text = f"key {key}: {number} was given after {before}"
                found.append(Violation("order", body, number, text))
            acknowledged.append((sent.ended_s, number, body))
    return found


def _overtaken(facts: _Facts) -> list[Violation]:
    """Check what receivers of sessions did, which complete messages one after the other."""
    found: list[Violation] = []
    # By session: when the highest number so far was completed, and which that is.
    done: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for each in facts.operations:
        if each.kind is not Kind.COMPLETE or each.outcome is not Outcome.OK or not each.key:
            continue
        [item] = each.items
        before = done[each.place, each.key]
        later = max((n for ended_s, n in before if ended_s < each.began_s), default=0)
        if later > item.number:
            text = f"completed after {later} of session {each.key}"
            found.append(Violation("overtaken", item.body, item.number, text))
        before.append((each.ended_s, item.number))
    return found


def _halved(facts: _Facts) -> list[Violation]:
    """Check requests, each of which only transactions complete, with one answer for each."""
    found: list[Violation] = []
    for (place, request), answers in _answers(facts).items():
        numbers = {(body, number) for _, body in answers for number in facts.numbers(body)}
        possible = any(sent.outcome is not Outcome.FAILED for sent, _ in answers)
        arrived_s = min(
            (each.ended_s for _, body in answers for _, each in facts.given.get(body, ())),
            default=math.inf,
        )
        early = [
            body
            for sent, body in answers
            if any(each.ended_s < sent.began_s for _, each in facts.given.get(body, ()))
        ]
        again = any(
            number == request.number and each.place == place and each.began_s > arrived_s
            for number, each in facts.given.get(request.body, ())
        )
        text = ""
        if len(numbers) > 1:
            text = f"has {len(numbers)} answers: {', '.join(sorted(body for body, _ in numbers))}"
        elif possible and not numbers:
            text = f"completed, and none of its answers came: {answers[-1][1]}"
        elif again:
            text = "given again after its answer was received"
        elif early:
            text = f"{early[0]} was received before the commit began"
        if text:
            found.append(Violation("halved", request.body, request.number, text))
    return found


def _answers(facts: _Facts) -> dict[tuple[str, Item], list[tuple[Operation, str]]]:
    """Return what transactions sent or tried to send, by the place and the request answered."""
    parts: dict[str, list[Operation]] = defaultdict(list)
    for each in facts.operations:
        if each.transaction:
            parts[each.transaction].append(each)
    answers: dict[tuple[str, Item], list[tuple[Operation, str]]] = defaultdict(list)
    for operations in parts.values():
        done = [(each.place, i) for each in operations if each.kind in SETTLED for i in each.items]
        sent = [(each, i.body) for each in operations if each.kind in SENT for i in each.items]
        # The first answers the first request of the transaction, and so on.
        for request, answer in zip(done, sent, strict=True):
            answers[request].append(answer)
    return answers


def _torn(facts: _Facts) -> list[Violation]:
    found = []
    for each in facts.operations:
        if each.kind is not Kind.SEND or len(each.items) < 2 or each.place.startswith("taken"):
            continue
        seen = [bool(facts.given.get(item.body)) for item in each.items]
        if any(seen) and not all(seen):
            missing = each.items[seen.index(False)].body
            found.append(Violation("torn", missing, 0, f"{sum(seen)} of {len(seen)} were given"))
    return found


def _hung(operations: Sequence[Operation]) -> list[Violation]:
    return [
        Violation(
            "hung", each.items[0].body if each.items else "", 0, f"{each.kind} took {took:.1f} s"
        )
        for each in operations
        if (took := each.ended_s - each.began_s) > CALL_S_MAX
    ]
