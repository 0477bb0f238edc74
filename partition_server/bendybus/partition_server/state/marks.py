"""Marks inside a stage: what is decided after a mark can be taken back alone, before the commit.

    mark = turn.mark()
    …                           rules decide, as always
    turn.take_back_to(mark)     the stage and the partition are as they were at the mark
    … or turn.keep(mark)        what was decided since then stays decided

A mark costs only the command that takes it. It notes how long the lists of the stage are: rules
only append to them. What a rule changes in place is restored from what the first touch of a queue
*since the mark* noted, by the stage's `on_failure`, which is also what undoes it if the commit
fails, and by the partition's log (see `undo_log`). Marks are kept or taken back in the reverse of
their order; the stage has those that are open, so that a rule that raises leaves none behind.

Not restored is what has no meaning of its own: numbers of lock generations, when a queue was last
used, the budget that was spent, and streams that ended (they are over whatever is decided).
"""

from dataclasses import dataclass, fields
from typing import Any, Final

from bendybus.partition_server.state.stage import Stage, Touched
from bendybus.partition_server.state.undo_log import UndoLog
from bendybus.partition_server.store.records import Changes


def _growing(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields that rules only append to, or only add keys to."""
    return tuple(each.name for each in fields(kind) if each.default_factory in (list, dict))


def _replaced(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields that rules set."""
    growing = _growing(kind)
    return tuple(each.name for each in fields(kind) if each.name not in growing)


# `touched` begins empty after a mark, `changes` is looked into, and marks do not undo each other.
_STAGE: Final = tuple(name for name in _growing(Stage) if name not in ("touched", "marks"))
_STAGE_VALUES: Final = tuple(name for name in _replaced(Stage) if name != "changes")
_CHANGES: Final = _growing(Changes)
_CHANGES_VALUES: Final = _replaced(Changes)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a stage and its partition were, as far as it cannot be told from what follows."""

    # How long each growing field of the stage and of its changes was.
    lengths: tuple[int, ...]
    # The other fields.
    values: tuple[Any, ...]
    # What was touched before.
    touched: dict[int, Touched]
    # How long the partition's log was.
    changes: int


def mark(stage: Stage, undo: UndoLog) -> Mark:
    """Return a mark of the stage as it is; from here on each touch of a queue is a first one."""
    made = Mark(
        tuple([len(field) for field in _fields(stage)]),
        tuple([getattr(stage, name) for name in _STAGE_VALUES])
        + tuple([getattr(stage.changes, name) for name in _CHANGES_VALUES]),
        stage.touched,
        len(undo),
    )
    stage.marks.append(made)
    stage.touched = {}
    return made


def take_back(stage: Stage, to: Mark, undo: UndoLog) -> None:
    """Undo what was decided since the mark, and the marks after it that a bug has left open."""
    while stage.marks[-1] is not to:
        take_back(stage, stage.marks[-1], undo)
    for touched in stage.touched.values():
        touched.queue.state.restore(touched.figures)
    for queue, counter, lock in reversed(stage.unlocked[_length(to, "unlocked") :]):
        queue.locks[counter] = lock
        queue.watch_lock(lock.until_mono_ms, [(counter, lock.generation)])
    for undone in reversed(stage.on_failure[_length(to, "on_failure") :]):
        undone()
    # STRICTLY AFTER the locks are back: theirs are among them.
    undo.take_back_to(to.changes)
    for field, length in zip(_fields(stage), to.lengths, strict=True):
        _cut(field, length)
    values = iter(to.values)
    for name in _STAGE_VALUES:
        setattr(stage, name, next(values))
    for name in _CHANGES_VALUES:
        setattr(stage.changes, name, next(values))
    stage.touched = to.touched
    stage.marks.pop()


def take_back_all(stage: Stage, undo: UndoLog) -> None:
    """Undo all that was decided: figures, locks, producers and due times are as they were before
    the stage.
    """
    if stage.marks:
        # A rule raised after it took them.
        take_back(stage, stage.marks[0], undo)
    stage.roll_back()
    undo.take_back_to(0)


def keep(stage: Stage, to: Mark) -> None:
    """Let what was decided since the mark stay decided."""
    since, stage.touched = stage.touched, to.touched
    for slot, touched in since.items():
        before = stage.touched.setdefault(slot, touched)
        if before is not touched:
            before.fresh += touched.fresh
            before.cold |= touched.cold
    last = stage.marks.pop()
    assert last is to, "marks are kept in the reverse of their order"


def _fields(stage: Stage) -> list[Any]:
    changes = stage.changes
    return [getattr(stage, name) for name in _STAGE] + [getattr(changes, n) for n in _CHANGES]


def _length(mark: Mark, name: str) -> int:
    return mark.lengths[(_STAGE + _CHANGES).index(name)]


def _cut(field: list[Any] | dict[Any, Any], length: int) -> None:
    if isinstance(field, list):
        assert len(field) >= length, "something from before the mark was taken out"
        del field[length:]
    else:
        while len(field) > length:
            field.popitem()
