"""What must hold of those who hold sessions. Pure: no bus, no clock.

    starved     the holder of a session with lock left asked for messages that it had not been
                given yet, nothing disturbed its partition and its front end, and it got none
    late        a receive ended long after its wait, although its front end was undisturbed
    freed       a session was accepted before the lock of one whose line was cut was over
    locked      a session could not be accepted although its last lock was over
    uncounted   a message that was in the hands of one whose line was cut came again with its
                delivery count unchanged

A partition that is started again has forgotten locks and deliveries, so that nothing is asked of
what was held before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from bendybus.domain import partitioning
from tests.chaos.cluster import PARTITIONS
from tests.chaos.history import Fault, Kind, Operation, Outcome
from tests.chaos.lease_load import LEASES, WAIT_S
from tests.chaos.violation import Violation

# Those that forget what a partition held.
RESTARTS: Final = ("kill", "restart")
# After a fault front ends and clients back off, and find each other again.
RECOVERY_S: Final = 5.0
# A receive that no partition answers may take so long beyond its wait.
UNANSWERED_S: Final = 2.5
# What a busy machine adds to any time.
BUSY_S: Final = 1.5
# What clocks and rounding may make of the end of a lock.
EARLY_S: Final = 0.1
# A session's messages are handed over until so much of its lock is left; see R320.
LEFT_S: Final = 1.0


def check(
    operations: Iterable[Operation], faults: Iterable[Fault]
) -> tuple[list[Violation], Counter[str]]:
    """Return every violation, and how often each rule could have been broken."""
    sessions: dict[str, list[Operation]] = defaultdict(list)
    for each in operations:
        if each.place == LEASES and each.key:
            sessions[each.key].append(each)
    judge = _Judge(_Quiet(faults))
    for session, about in sessions.items():
        known = sorted(about, key=lambda each: each.began_s)
        judge.asks(session, known)
        judge.cut(session, known)
    return judge.found, judge.judged


class _Quiet:
    """When processes were disturbed."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        # By process: [begin, end, what].
        self._disturbed: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
        for each in sorted(faults, key=lambda each: each.at_s):
            for name in each.targets:
                times = self._disturbed[name]
                if each.over:
                    begun, _, text = times.pop()
                    times.append((begun, each.at_s, text))
                else:
                    times.append((each.at_s, float("inf"), each.text))

    def between(self, names: Sequence[str], began_s: float, ended_s: float) -> bool:
        """Return whether nothing disturbed any of them, and they had recovered."""
        return not any(
            begun < ended_s and over + RECOVERY_S > began_s
            for name in names
            for begun, over, _ in self._disturbed[name]
        )

    def forgot(self, name: str, began_s: float, ended_s: float) -> bool:
        """Return whether a partition may have been started in between."""
        return any(
            begun < ended_s and over > began_s and text.startswith(RESTARTS)
            for begun, over, text in self._disturbed[name]
        )


class _Judge:
    """Applies the rules to one session after the other."""

    def __init__(self, quiet: _Quiet) -> None:
        self.found: list[Violation] = []
        self.judged: Counter[str] = Counter()
        self._quiet = quiet

    def asks(self, session: str, known: Sequence[Operation]) -> None:
        """Judge each ask of who held the session then."""
        sent: set[str] = set()
        given: set[str] = set()
        accepted: Operation | None = None
        for each in known:
            if each.kind is Kind.SEND and each.outcome is Outcome.OK:
                sent.update(item.body for item in each.items)
            elif each.kind is Kind.ACCEPT and each.outcome is Outcome.OK:
                accepted = each
                # What is not completed can be given to the next holder.
                given = _completed(known, each.began_s)
            elif each.kind is Kind.RECEIVE and accepted and each.task == accepted.task:
                self._ask(each, accepted, sent - given)
                given.update(item.body for item in each.items)

    def _ask(self, ask: Operation, accepted: Operation, there: set[str]) -> None:
        took_s = ask.ended_s - ask.began_s
        if self._quiet.between((ask.through,), ask.began_s, ask.ended_s):
            late = took_s > WAIT_S + UNANSWERED_S + BUSY_S
            self._judge("late", late, ask, f"took {took_s:.1f} s, and had {WAIT_S:.0f} s to wait")
        partition = _partition(ask.key)
        calm = self._quiet.between((partition, ask.through), ask.began_s, ask.ended_s)
        left_s = ask.until_s - ask.ended_s
        if (
            calm
            and there
            and left_s > LEFT_S
            and not self._quiet.forgot(partition, accepted.began_s, ask.ended_s)
        ):
            text = f"had {left_s:.1f} s of its lock left, and messages: {ask.error}"
            self._judge("starved", not ask.items, ask, text, min(there))

    def cut(self, session: str, known: Sequence[Operation]) -> None:
        """Judge what became of a session whose holder lost its line."""
        cut = next((each for each in known if each.kind is Kind.CUT), None)
        if cut is None:
            return
        held_s = max(
            each.began_s
            for each in known
            if each.kind is Kind.ACCEPT and each.task == cut.task and each.began_s < cut.began_s
        )
        counts = {
            item.body: item.count
            for each in known
            if each.kind is Kind.RECEIVE and each.task == cut.task
            for item in each.items
        }
        partition = _partition(session)
        for each in known:
            if each.began_s < cut.ended_s or self._quiet.forgot(partition, held_s, each.ended_s):
                continue
            if each.kind is Kind.ACCEPT and each.outcome is Outcome.OK:
                early_s = cut.until_s - each.ended_s
                text = f"accepted {early_s:.1f} s before its lock was over"
                self._judge("freed", early_s > EARLY_S, each, text)
            elif each.kind is Kind.ACCEPT:
                over = each.began_s > cut.until_s + BUSY_S
                # A partition that was suspended has made its locks longer.
                if over and self._quiet.between((partition, each.through), held_s, each.ended_s):
                    self._judge("locked", True, each, each.error)
            elif each.kind is Kind.RECEIVE:
                for item in each.items:
                    if item.body in counts:
                        again = item.count <= counts.pop(item.body)
                        text = f"given twice with delivery count {item.count}"
                        self._judge("uncounted", again, each, text, item.body)

    def _judge(self, rule: str, broken: bool, about: Operation, text: str, body: str = "") -> None:
        self.judged[rule] += 1
        if broken:
            self.found.append(Violation(rule, body, 0, f"{about.key}: {text}"))


def _partition(session: str) -> str:
    return f"partition-{partitioning.partition_of(session, PARTITIONS)}"


def _completed(known: Sequence[Operation], before_s: float) -> set[str]:
    return {
        item.body
        for each in known
        if each.kind is Kind.COMPLETE and each.began_s < before_s
        for item in each.items
    }
