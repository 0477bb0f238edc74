"""A partition with nothing but the physical work: frames in, rows in SQLite, frames out.

Usage: -m bench.bare.partition FILE
"""

import asyncio
import queue
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from bench.bare import serving
from bench.bare.frame import Frame

GROUP_FRAMES_MAX: Final = 64
Output = asyncio.Queue[bytes | None]

_CREATE: Final = (
    "create table message(number integer primary key, state integer, enqueued_at_ms integer, "
    "session text, message_id text, deliveries integer, body blob)"
)


@dataclass(slots=True)
class Group:
    """What one commit stores and deletes, and the answers that follow it."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    gone: list[tuple[int]] = field(default_factory=list)
    answers: list[tuple[Output, bytes]] = field(default_factory=list)


class Store:
    """Owns the database, on a thread of its own."""

    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._number, self._cursor = 0, -1
        self.work: queue.SimpleQueue[tuple[bytes, Output]] = queue.SimpleQueue()

    def run(self) -> None:
        """One transaction for everything that waits, answers only after its commit."""
        database = sqlite3.connect(self._path, isolation_level=None)
        for pragma in ("journal_mode=wal", "synchronous=full", "wal_autocheckpoint=4000"):
            database.execute(f"pragma {pragma}")
        database.execute(_CREATE)
        while True:
            frames = [self.work.get()]
            while len(frames) < GROUP_FRAMES_MAX and not self.work.empty():
                frames.append(self.work.get())
            group = self._grouped(database, frames)
            if group.rows or group.gone:
                database.execute("begin immediate")
                database.executemany("insert into message values(?,?,?,?,?,?,?)", group.rows)
                database.executemany("delete from message where number = ?", group.gone)
                database.execute("commit")
            self._loop.call_soon_threadsafe(_answer, group.answers)

    def _grouped(self, database: sqlite3.Connection, frames: list[tuple[bytes, Output]]) -> Group:
        now, group = time.time_ns() // 1_000_000, Group()
        for raw, out in frames:
            frame = Frame.FromString(raw)
            answer = Frame(partition=frame.partition)
            if frame.messages:
                for body in frame.messages:
                    group.rows.append((self._number, 0, now, None, None, 0, body))
                    self._number += 1
                answer.credit = len(frame.messages)
            elif frame.numbers:
                group.gone.extend((number,) for number in frame.numbers)
                answer.credit = len(frame.numbers)
            else:
                found = database.execute(
                    "select number, body from message where number > ? order by number limit ?",
                    (self._cursor, frame.credit),
                ).fetchall()
                self._cursor = found[-1][0] if found else self._cursor
                answer.numbers.extend([number for number, _ in found])
                answer.messages.extend([body for _, body in found])
            group.answers.append((out, answer.SerializeToString()))
        return group


def _answer(answers: list[tuple[Output, bytes]]) -> None:
    for out, raw in answers:
        out.put_nowait(raw)


async def main() -> None:
    """Serve one partition."""
    store = Store(sys.argv[1], asyncio.get_running_loop())
    threading.Thread(target=store.run, daemon=True).start()

    async def stream(frames: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        out: Output = asyncio.Queue()

        async def read() -> None:
            async for raw in frames:
                store.work.put((raw, out))
            out.put_nowait(None)

        reading = asyncio.create_task(read())
        try:
            while (raw := await out.get()) is not None:
                yield raw
        finally:
            reading.cancel()

    await serving.serve(stream)


if __name__ == "__main__":
    asyncio.run(main())
