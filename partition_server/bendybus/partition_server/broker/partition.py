"""The broker of one partition: decides on commands and on what is due, one turn after the other.

The shell (`partition_thread`) drives it:

    stage = partition.decide(commands, now)     changes figures; sends no replies
    store.commit(stage.changes)                 the only write
    answers = partition.apply(stage, now)       after the commit: readers see it, asks
                                                are served, replies are sent
    … or partition.abandon(stage, error)        the commit failed: as if nothing had been decided

Sweeps are stages of the same kind. Which rule handles what is a table, `rule_table`.

A rule that raises what is not a BusError has a bug. `stages` decides on a group so that this costs
the one command its outcome; `sweeper` so that it delays the one entity; see `state.faults`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from uuid import UUID

from bendybus.domain import limits
from bendybus.domain.errors import BusError
from bendybus.partition_server.broker.rule_table import (
    AFTER_COMMIT,
    COMMANDS,
    CommandRule,
    Phase,
)
from bendybus.partition_server.broker.sweeper import Sweeper
from bendybus.partition_server.rules import delays, receive, schedule
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.answers import (
    Appended,
    AskRefused,
    Failed,
    Recalled,
    Transacted,
)
from bendybus.partition_server.state.commands import (
    AcceptSession,
    Append,
    Ask,
    Command,
    Now,
    Release,
    StreamEnded,
    Transact,
    Withdraw,
    stores,
)
from bendybus.partition_server.state.entity_ref import Caller
from bendybus.partition_server.state.faults import RuleFailed
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import Answer, Stage, failure_of
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.errors import StoreError
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
        new_id: Callable[[], UUID],
        clock_hold_ms: int = CLOCK_HOLD_MS,
        machine: str = "",
        clock_ms: Callable[[], int] = lambda: 0,
        forward_refused_ms: int = limits.FORWARD_REFUSED_MS,
    ) -> None:
        """`machine` names the boot of the machine; `clock_ms` goes on during a turn.

        `new_id` is the randomness of rules and of session tokens; for `forward_refused_ms` see
        `Forwards`.
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
        self._sweeper = Sweeper(self.state, self.take_back, now)

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

    def decide(
        self,
        commands: Iterable[Command],
        now: Now,
        begins: Callable[[Command], bool] | None = None,
    ) -> Stage:
        """Decide on commands in their order; see the module's docstring.

        `begins`: whether a command is decided, None: each is; others are not part of the stage.
        Raises RuleFailed, with nothing decided, when a rule raises what it should not.
        """
        stage = self.state.begin_stage()
        turn = Turn(self.state, stage, now, self.state.clock.expiry_held(now))
        command: Command | None = None
        try:
            for command in commands:
                if begins is not None and not begins(command):
                    continue
                rule = COMMANDS[type(command)]
                if rule.phase in AFTER_COMMIT:
                    stage.after.append(command)
                else:
                    _handle(rule, turn, command)
        except StoreError:
            raise
        except Exception as error:
            self.take_back(stage)
            raise RuleFailed(command, error) from error
        return stage

    def stages(
        self, commands: Sequence[Command], now: Now
    ) -> Iterator[tuple[Stage, Sequence[Command]]]:
        """Yield the stages of a group, each with its commands: one, unless a rule raises.

        Then those before the command that it was at, that one alone, and those after it. Alone it
        may be decided; else its stage only refuses it. The caller commits and applies each stage
        before it asks for the next one.
        """
        groups = deque([commands])
        while groups:
            group = groups.popleft()
            try:
                stage = self.decide(group, now)
            except RuleFailed as failed:
                at = next(i for i, command in enumerate(group) if command is failed.command)
                if len(group) > 1:
                    parts = (group[:at], group[at : at + 1], group[at + 1 :])
                    groups.extendleft(part for part in reversed(parts) if part)
                    continue
                stage = self.refusal(group[0], failed.error, now)
            yield stage, group

    def refusal(self, command: Command, error: Exception, now: Now) -> Stage:
        """Return the stage of a command whose rule raised: nothing but its answer."""
        stage, entity = self.state.begin_stage(), self._entity_of(command)
        self.state.faults.note(type(command).__name__, entity, error)
        if isinstance(command, StreamEnded):
            # What was reserved for it is free when the locks end.
            stage.ended.append(command.stream)
            receive.close_asks(self.state, command.stream, now)
        refused = faults.internal_error(self.state.index, type(command).__name__, entity)
        value = COMMANDS[type(command)].refused(command, refused)
        if value is not None:
            stage.answer(command.reply_to, value)
        return stage

    def _entity_of(self, command: Command) -> str:
        """Return the name of the entity that a command is about, "" if it names none."""
        ref = getattr(command, "entity", None)
        if ref is not None:
            entity = self.state.catalogue.by_uid(ref.uid)
        else:
            queue = self.state.queues.at(faults.slot_of(command))
            entity = queue.entity if queue else None
        return entity.name if entity else ""

    def sweep(self, now: Now) -> Stage | None:
        """Decide on what is due by time, within a budget; None if nothing is. See `Sweeper`."""
        return self._sweeper.sweep(now)

    def cannot_write(self, error: Exception, now: Now) -> None:
        """Take back the last sweep, which the store cannot write."""
        self._sweeper.cannot_write(error, now)

    def note_clock(self, now: Now) -> Stage:
        """Decide on noting the clocks in the file, at its closing."""
        stage = self.state.begin_stage()
        if not self.state.clock.expiry_held(now):
            self.state.due.mark(stage.changes, now)
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
            self._serve_slot(slot, answers, now)
        state.windows.trim(now.mono_ms)
        return answers

    def apply(self, stage: Stage, now: Now) -> list[Answer]:
        """Make a committed stage take effect; return the answers, in order."""
        state = self.state
        state.journal.commit()
        if state.awaiting.due:
            schedule.note_room(state, stage, now)
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
        self.take_back(stage)
        answers = [answer for command in commands for answer in self._give_back(command, now)]
        self._forget_streams(stage)
        stage.answers[:] = [
            Answer(to, failure_of(value, error))
            for to, value in stage.answers
            # What was taken back is locked again.
            if not isinstance(value, Recalled)
        ]
        stage.answers += filter(None, [failed(error, now) for failed in stage.steps])
        stage.answers += self.state.publications.failed(error)
        self._handle_after(stage, now)
        self._serve(stage, now)
        return answers + stage.answers

    def _give_back(self, command: Command, now: Now) -> list[Answer]:
        """Handle a command that gives messages back, if that needs no commit."""
        if not isinstance(command, Release | StreamEnded):
            return []
        try:
            stage = self.decide([command], now)
        except RuleFailed:
            return []
        if stage.changes:
            # One of them is past its time: the locks end by themselves.
            self.take_back(stage)
            return []
        return self.apply(stage, now)

    def take_back(self, stage: Stage) -> None:
        """Undo a stage whose commit failed, so that its commands can be decided again."""
        stage.journal.unwind(0)

    def refuse_sends(self, commands: Iterable[Command], error: BusError, now: Now) -> list[Answer]:
        """Return the answers to sends that find no room; what is stored already is told so."""
        return [
            Answer(command.reply_to, self._refused(command, error, now))
            for command in commands
            if stores(command)
        ]

    def _refused(
        self, command: Command, error: BusError, now: Now
    ) -> Appended | Transacted | Failed:
        if isinstance(command, Append):
            return self.state.producers.refused(command, error, now)
        if isinstance(command, Transact):
            return self.state.transactions.refused(command, error, now)
        return Failed(error)

    def refuse_waiting(self, error: BusError) -> list[Answer]:
        """Return the answers to what was sent to topics and waits, when there is no room for it."""
        return self.state.publications.failed(error)

    def _serve(self, stage: Stage, now: Now) -> None:
        for slot, queue in stage.served.items():
            if queue.asks:
                self._serve_slot(slot, stage.answers, now)

    def _serve_slot(self, slot: int, answers: list[Answer], now: Now) -> None:
        state = self.state
        try:
            receive.serve(state, slot, answers, now, state.serve_budget)
        except StoreError:
            raise
        except RuleFailed as failed:
            ask = failed.command
            self._serving_failed(slot, answers, now, failed.error, (ask.stream, ask.ask_id))
        except Exception as error:
            self._serving_failed(slot, answers, now, error)

    def _serving_failed(
        self,
        slot: int,
        answers: list[Answer],
        now: Now,
        error: Exception,
        key: tuple[Caller, int] | None = None,
    ) -> None:
        """Refuse the ask whose turn it was, else the first; go on with the others next turn."""
        state, work = self.state, Ask.__name__
        queue = state.queues.at(slot)
        assert queue is not None, "what is served is there"
        state.faults.note(work, queue.entity.name, error)
        # What was taken and not locked is there again.
        state.read_again(queue)
        key = key or next(iter(queue.asks), None)
        if key is not None:
            state.streams.ask_closed(*key)
            queue.close_ask(key, now)
            refused = faults.internal_error(state.index, work, queue.entity.name)
            answers.append(Answer(key[0], AskRefused(key[1], refused)))
        if queue.asks:
            state.unserved[slot] = None
        else:
            state.unserved.pop(slot, None)

    def _forget_streams(self, stage: Stage) -> None:
        for stream in stage.ended:
            self.state.streams.forget(stream)

    def _handle_after(self, stage: Stage, now: Now) -> None:
        if stage.after:
            turn = Turn(self.state, stage, now, self.state.clock.expiry_held(now))
            for command in stage.after:
                try:
                    _handle(COMMANDS[type(command)], turn, command)
                except StoreError:
                    raise
                except Exception as error:
                    self._after_failed(command, stage, now, error)

    def _after_failed(self, command: Command, stage: Stage, now: Now, error: Exception) -> None:
        """Refuse a read or an ask; the ask is not open (any more)."""
        state = self.state
        if isinstance(command, Ask | AcceptSession):
            state.streams.ask_closed(command.stream, command.ask_id)
            queue = state.queues.of(command.entity.uid, command.entity.sub_queue)
            if queue is not None:
                queue.close_ask((command.stream, command.ask_id), now)
        elif isinstance(command, Withdraw):
            self._withdraw_failed(command, now)
        stage.answers += self.refusal(command, error, now).answers

    def _withdraw_failed(self, command: Withdraw, now: Now) -> None:
        """Close the ask, and let others have what may have been taken for it."""
        state, key = self.state, (command.stream, command.ask_id)
        for queue in state.queues:
            if key in queue.asks:
                queue.close_ask(key, now)
                state.read_again(queue)
                state.unserved[queue.slot] = None
        state.streams.ask_closed(*key)


def _handle(rule: CommandRule, turn: Turn, command: Command) -> None:
    # Where a rule finds the queue, it notes the use.
    turn.partition.handles_use = rule.is_use
    try:
        value = rule.handle(turn, command)
    except BusError as error:
        value = rule.refused(command, error)
    finally:
        turn.partition.handles_use = False
    if value is not None:
        turn.stage.answer(command.reply_to, value)
