"""Sweeps: what is due by time is decided in stages of its own, one kind at a time.

A rule that raises is decided again carefully: each piece of its work in a mark of its own, so that
the one that raises is taken back alone and waits (see `state.faults`), and the others get on.
"""

from collections.abc import Callable
from typing import Final

from bendybus.partition_server.broker.rule_table import SWEEPS
from bendybus.partition_server.rules import catalogue_entry
from bendybus.partition_server.state import faults
from bendybus.partition_server.state.budget import Budget
from bendybus.partition_server.state.commands import Now
from bendybus.partition_server.state.due_times import Sweep
from bendybus.partition_server.state.partition_state import PartitionState
from bendybus.partition_server.state.stage import Stage
from bendybus.partition_server.state.turn import Turn
from bendybus.partition_server.store.errors import StoreError, StoreFull

# Longer than what cannot be written waits: it is found without another commit that fails.
CHECKED_MS: Final = 2 * faults.PAUSE_MS_MAX


class Sweeper:
    """The sweeps of one partition."""

    def __init__(self, state: PartitionState, take_back: Callable[[Stage], None], now: Now) -> None:
        """`take_back` undoes a stage that is not committed."""
        self._state = state
        self._take_back = take_back
        self._corrections = 0
        self._expiry_held = state.clock.expiry_held(now)
        self._dropping = False
        # Until when pieces of sweeps are tried before they are committed, by kind.
        self._checked_until: dict[Sweep | None, int] = {}
        # The last sweep: its kind (None: rows of deleted queues) and its stage.
        self._last: tuple[Sweep | None, Stage] | None = None

    def sweep(self, now: Now) -> Stage | None:
        """Decide on what is due by time, within a budget; None if nothing is.

        Raises StoreFull, with nothing decided, where a piece of it that is tried finds no room.
        """
        state = self._state
        held = self._check_clock(now)
        if state.faults.skipped:
            state.look_again(now)
        due = state.sweeps_due(now, expiry_held=held)
        dropped = bool(state.queues.dropped) and state.faults.wait_ms(None, now.mono_ms) <= 0
        if not due and not dropped:
            self._dropping = False
            return None
        # In turn with what is due: rows of a deleted queue may themselves be what is due.
        self._dropping = dropped and not (due and self._dropping)
        kind = None if self._dropping else state.due.next_of(due)
        if now.mono_ms < self._checked_until.get(kind, 0):
            stage = self._sweep_carefully(kind, None, now, held)
        else:
            turn = Turn(state, state.begin_stage(), now, held, Budget(state.clock_ms))
            try:
                _sweep(turn, kind)
                stage = turn.stage
            except StoreError:
                raise
            except Exception as error:
                self._take_back(turn.stage)
                stage = self._sweep_carefully(kind, error, now, held)
        self._last = kind, stage
        return stage

    def _sweep_carefully(
        self, kind: Sweep | None, first: Exception | None, now: Now, expiry_held: bool
    ) -> Stage:
        """Decide again on what raised: a piece of work that raises is taken back alone.

        Nothing raised at `first`: a piece that the store cannot write is looked for.
        """
        state = self._state
        budget, checked = Budget(state.clock_ms), first is None
        turn = Turn(
            state, state.begin_stage(), now, expiry_held, budget, careful=True, checked=checked
        )
        noted = len(state.faults.noted)
        try:
            _sweep(turn, kind)
        except StoreFull:
            # A piece that was tried: all of it is due again.
            self._take_back(turn.stage)
            raise
        except StoreError:
            raise
        except Exception:
            # Not in a piece of its work: none of the kind is done for a while.
            self._take_back(turn.stage)
            turn.stage = state.begin_stage()
            state.faults.hold(kind, now.mono_ms)
        if checked and len(state.faults.noted) > noted:
            self._check(kind, now)
        elif first is not None and len(state.faults.noted) == noted:
            state.faults.note(kind.name if kind else "DROPPED", "", first)
        return turn.stage

    def cannot_write(self, error: Exception, now: Now) -> None:
        """Take back the last sweep, which the store cannot write; none of its kind for a while.

        Then the piece of its work that cannot be written is found, and waits alone.
        """
        assert self._last is not None, "it was decided"
        kind, stage = self._last
        self._take_back(stage)
        self._state.faults.note(kind.name if kind else "DROPPED", "", error)
        self._state.faults.hold(kind, now.mono_ms)
        self._check(kind, now)

    def _check(self, kind: Sweep | None, now: Now) -> None:
        """Try pieces of a kind before they are committed, until none was amiss for long enough."""
        self._checked_until[kind] = now.mono_ms + CHECKED_MS

    def _check_clock(self, now: Now) -> bool:
        """Return whether expiry is held; look at everything again where a clock was corrected."""
        state = self._state
        held = state.clock.expiry_held(now)
        if self._expiry_held and not held:
            # What was passed over meanwhile is due now; keys may wait for a time that was wrong.
            state.start_over()
        self._expiry_held = held
        if state.clock.corrections != self._corrections:
            self._corrections = state.clock.corrections
            state.rewind()
        return held


def _sweep(turn: Turn, kind: Sweep | None) -> None:
    if kind is None:
        catalogue_entry.remove_dropped(turn)
    else:
        SWEEPS[kind](turn)
