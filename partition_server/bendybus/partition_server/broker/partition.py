"""The broker of one partition: decides on commands and on what is due, one turn after the other.

The shell (`partition_thread`) drives it:

    stage = partition.decide(commands, now)     changes figures; sends no replies
    store.commit(stage.changes)                 the only write
    answers = partition.apply(stage, now)       STRICTLY AFTER the commit: readers see it, asks
                                                are served, replies are sent
    … or partition.abandon(stage, error)        the commit failed: as if nothing had been decided

Sweeps are stages of the same kind. Which rule handles what is a table, `rule_table`.
"""

from collections.abc import Callable, Iterable
from typing import Final
from uuid import UUID

from bendybus.domain import limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.broker.rule_table import COMMANDS, SWEEPS, CommandRule, Phase
from bendybus.partition_server.rules import catalogue_entry, delays, receive
from bendybus.partition_server.state.answers import Failed, Recalled
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import (
    Append,
    Command,
    Now,
    Release,
    StreamEnded,
    TakeForwarded,
    Transact,
    stores,
)
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import Answer, Stage, failure_of
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.store import Opened, Store

CLOCK_HOLD_MS: Final = 5 * 60 * 1_000


class Partition:
    """One partition since its file was opened."""

    def __init__(
        self,
        opened: Opened,
        store: Store,
        now: Now,
        *,
        clock_hold_ms: int = CLOCK_HOLD_MS,
        machine: str = "",
        clock_ms: Callable[[], int] = lambda: 0,
        new_id: Callable[[], UUID] = lambda: UUID(int=0),
        forward_refused_ms: int = limits.FORWARD_REFUSED_MS,
    ) -> None:
        """`machine` names the boot of the machine; `clock_ms` goes on during a turn.

        `new_id` is the randomness of rules; `forward_refused_ms`: see `Forwards`.
        """
        self.state = PartitionState(
            opened,
            store,
            now,
            clock_hold_ms=clock_hold_ms,
            machine=machine,
            clock_ms=clock_ms,
            new_id=new_id,
            forward_refused_ms=forward_refused_ms,
        )
        delays.restore(self.state, opened.delays, now)
        self._corrections = 0
        self._expiry_held = self.state.clock.expiry_held(now)
        self._dropping = False

    @staticmethod
    def grouped(commands: Iterable[Command]) -> Iterable[list[Command]]:
        """Split commands into stages: in order, some alone."""
        group: list[Command] = []
        for command in commands:
            if COMMANDS[type(command)].phase is Phase.ALONE:
                if group:
                    yield group
                    group = []
                yield [command]
            else:
                group.append(command)
        if group:
            yield group

    def decide(self, commands: Iterable[Command], now: Now) -> Stage:
        """Decide on commands in their order; see the module's docstring."""
        stage = Stage()
        turn = Turn(self.state, stage, now, self.state.clock.expiry_held(now))
        for command in commands:
            rule = COMMANDS[type(command)]
            if rule.phase is Phase.AFTER:
                stage.after.append(command)
            else:
                _handle(rule, turn, command)
        return stage

    def sweep(self, now: Now) -> Stage | None:
        """Decide on what is due by time, within a budget; None if nothing is."""
        state = self.state
        held = self._check_clock(now)
        due, dropped = state.sweeps_due(now, expiry_held=held), state.queues.dropped
        if not due and not dropped:
            self._dropping = False
            return None
        turn = Turn(state, Stage(), now, held, Budget(state.clock_ms))
        # In turn with what is due: rows of a deleted queue may themselves be what is due.
        self._dropping = bool(dropped) and not (due and self._dropping)
        if due and not self._dropping:
            SWEEPS[state.due.next_of(due)](turn)
        else:
            catalogue_entry.remove_dropped(turn)
        return turn.stage

    def _check_clock(self, now: Now) -> bool:
        """Return whether expiry is held; look at everything again where a clock was corrected."""
        state = self.state
        held = state.clock.expiry_held(now)
        if self._expiry_held and not held:
            # What was passed over meanwhile is due now; keys may wait for a time that was wrong.
            state.start_over()
        self._expiry_held = held
        if state.clock.corrections != self._corrections:
            self._corrections = state.clock.corrections
            state.rewind()
        return held

    def note_clock(self, now: Now) -> Stage:
        """Decide on noting the clocks in the file, at its closing."""
        stage = Stage()
        if not self.state.clock.expiry_held(now):
            self.state.due.mark(stage, now)
        return stage

    def go_on(self, now: Now) -> list[Answer]:
        """End a turn of commands: deliver what did not fit into the last one."""
        state = self.state
        answers: list[Answer] = []
        state.begin_turn()
        for slot in list(state.unserved):
            if state.serve_budget.spent():
                break
            # At the end of the line, if it is not served whole now.
            del state.unserved[slot]
            receive.serve(state, slot, answers, now, state.serve_budget)
        return answers

    def apply(self, stage: Stage, now: Now) -> list[Answer]:
        """Make a committed stage take effect; return the answers, in order."""
        state = self.state
        for moved in stage.on_commit:
            moved()
        if stage.changes.entities or stage.changes.slots_removed:
            catalogue_entry.take(state, stage, now)
        for queue, counter in stage.vanished:
            queue.ready.forget([counter])
        for touched in stage.touched.values():
            for row in touched.fresh:
                if row.expires_ms is not None or row.scheduled_ms:
                    state.due.appended(row)
            touched.queue.ready.push_hot(touched.fresh, touched.caught_up and not touched.cold)
            stage.served[touched.queue.slot] = touched.queue
        for queue, counter, lock in stage.returned:
            queue.ready.give_back(counter, lock)
            stage.served[queue.slot] = queue
        for slot in {entry.slot for entry in stage.changes.history}:
            detecting = state.queues.at(slot)
            if detecting is not None:
                state.watch_keys(detecting, now.wall_ms)
        stage.be_remembered(state.settlers, state.operations, now)
        if state.forwards.sources:
            state.forwards.note(stage.served)
        self._forget_streams(stage)
        self._handle_after(stage, now)
        self._serve(stage, now)
        return stage.answers

    def abandon(
        self, stage: Stage, error: BusError, now: Now, commands: Iterable[Command] = ()
    ) -> list[Answer]:
        """Roll back a stage whose commit failed; return the answers.

        What its `commands` only give back is given back all the same: no caller would repeat it.
        """
        self.take_back(stage, now)
        answers = [answer for command in commands for answer in self._give_back(command, now)]
        self._forget_streams(stage)
        self.state.deletions.failed(self.state.operations, stage, error, now)
        stage.answers[:] = [
            Answer(to, failure_of(value, error))
            for to, value in stage.answers
            # What was taken back is locked again.
            if not isinstance(value, Recalled)
        ]
        stage.answers += self.state.unfinished.failed(stage, error)
        stage.answers += self.state.publications.failed(error)
        self._handle_after(stage, now)
        self._serve(stage, now)
        return answers + stage.answers

    def _give_back(self, command: Command, now: Now) -> list[Answer]:
        """Handle a command that gives messages back, if that needs no commit."""
        if not isinstance(command, Release | StreamEnded):
            return []
        stage = self.decide([command], now)
        if stage.changes:
            # One of them is past its time: the locks end by themselves.
            self.take_back(stage, now)
            return []
        return self.apply(stage, now)

    def take_back(self, stage: Stage, now: Now) -> None:
        """Undo a stage whose commit failed, so that its commands can be decided again."""
        stage.roll_back()
        self.state.producers.roll_back(stage.changes)
        for queue, counter, lock in stage.unlocked:
            self.state.due.lock_ends.add(max(lock.until_mono_ms, now.mono_ms), queue.slot)
            assert counter in queue.locks

    def refuse_sends(self, commands: Iterable[Command], error: BusError, now: Now) -> list[Answer]:
        """Return the answers to sends that find no room; what is stored already is told so."""
        return [
            Answer(
                command.reply_to,
                Failed(error)
                if isinstance(command, TakeForwarded)
                else self.state.producers.refused(command, error, now),
            )
            for command in commands
            if isinstance(command, Append | Transact | TakeForwarded) and stores(command)
        ]

    def refuse_waiting(self, error: BusError) -> list[Answer]:
        """Return the answers to what was sent to topics and waits, when there is no room for it."""
        return self.state.publications.failed(error)

    def _serve(self, stage: Stage, now: Now) -> None:
        for slot, queue in stage.served.items():
            if queue.asks:
                receive.serve(self.state, slot, stage.answers, now, self.state.serve_budget)

    def _forget_streams(self, stage: Stage) -> None:
        for stream in stage.ended:
            self.state.streams.forget(stream)

    def _handle_after(self, stage: Stage, now: Now) -> None:
        if stage.after:
            turn = Turn(self.state, stage, now, self.state.clock.expiry_held(now))
            for command in stage.after:
                _handle(COMMANDS[type(command)], turn, command)


def _handle(rule: CommandRule, turn: Turn, command: Command) -> None:
    try:
        value = rule.handle(turn, command)
    except BusError as error:
        value = rule.refused(command, error)
    if value is not None:
        turn.stage.answer(command.reply_to, value)
