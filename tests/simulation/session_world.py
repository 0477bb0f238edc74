"""A world of sessions: clients, two front ends and four partitions, with everything that can fail.

All of it is the real code, from the client's receiver to the partition's rules; only processes,
lines and time are simulated. A seed gives the same world again.
"""

import asyncio
import random
from random import Random
from typing import Any

from bendybus.partition_server.state.answers import Appended
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append, EntityRef
from tests.simulation.partitions import PARTITIONS
from tests.simulation.session_clients import Application
from tests.simulation.session_history import History
from tests.simulation.session_processes import Processes, SimulatedFrontEnd

NAMES = [f"s{number}" for number in range(6)]
TICK_S = 0.05
# Everything that is under way has ended by then: locks, calls, retries.
PEACE_S = 60.0


class World:
    """See the module."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self.random = Random(seed)
        # Streams of clients spread their reconnects by it.
        random.seed(seed)
        self.processes = Processes(seed, 0.002 if faults else 0.0)
        self.history = History()
        self.front_ends = [SimulatedFrontEnd(self.processes, number) for number in range(2)]
        self.faults: dict[str, int] = {}
        self.applications = [Application(self, NAMES) for _ in range(5)]

    async def run(self, seconds: float, *, faults: bool = True) -> None:
        """Let everything happen for a while, then let the trouble end and the rest be received."""
        loop = asyncio.get_running_loop()
        background = [loop.create_task(self._tick())]
        senders = [loop.create_task(self._send(name, seconds)) for name in NAMES]
        working = [loop.create_task(each.run()) for each in self.applications]
        if faults:
            background.append(loop.create_task(self._trouble(loop.time() + seconds)))
        await asyncio.gather(*senders)
        end_s = loop.time() + PEACE_S
        while loop.time() < end_s and self.history.lost():
            self._check(working)
            await asyncio.sleep(0.5)
        self._check(working)
        for task in (*background, *working):
            task.cancel()

    def _check(self, working: "list[asyncio.Task[Any]]") -> None:
        for task in working:
            if task.done():
                task.result()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for node in self.processes.nodes:
                self.processes._step(node)

    # Senders

    async def _send(self, name: str, seconds: float) -> None:
        loop, number = asyncio.get_running_loop(), 0
        end_s = loop.time() + seconds
        partition = self.processes.entity.partition_of(name)
        while loop.time() < end_s:
            numbers = list(range(number + 1, number + 1 + self.random.randint(1, 3)))
            number = numbers[-1]
            future: asyncio.Future[Any] = loop.create_future()
            batch = Batch(
                [f"{name}/{each}".encode() for each in numbers], session_ids=[name] * len(numbers)
            )
            ref = EntityRef(self.processes.entity.uid, self.processes.entity.generation)
            self.processes.ask(partition, Append(future, ref, batch))
            await asyncio.wait([future], timeout=2.0)
            value = future.result() if future.done() else None
            if isinstance(value, Appended) and not value.failures:
                self.history.stored[name] += numbers
            await asyncio.sleep(self.random.uniform(0.1, 1.2))

    # Trouble

    async def _trouble(self, end_s: float) -> None:
        loop = asyncio.get_running_loop()
        kinds = [
            self._crash,
            self._stall,
            self._full,
            self._kill_front_end,
            self._break_client,
            self._break_client,
            self._break_partition,
            self._break_partition,
            self._move_client,
            self._move_partition,
        ]
        while loop.time() < end_s:
            await asyncio.sleep(self.random.uniform(0.05, 1.5))
            kind = self.random.choice(kinds)
            self.faults[kind.__name__] = self.faults.get(kind.__name__, 0) + 1
            kind()
        for index in range(PARTITIONS):
            self.processes.restart(index)

    def _crash(self) -> None:
        index = self.random.randrange(PARTITIONS)
        self.processes.crash(index)
        pause_ms = self.random.randint(50, 2_000)
        self.processes.after(pause_ms, lambda: self.processes.restart(index))

    def _stall(self) -> None:
        self.processes.stall(self.random.randrange(PARTITIONS), self.random.randint(100, 4_000))

    def _full(self) -> None:
        self.processes.fill_disk(self.random.randrange(PARTITIONS))

    def _kill_front_end(self) -> None:
        number = self.random.randrange(len(self.front_ends))
        self.front_ends[number].kill()

        def start() -> None:
            self.front_ends[number] = SimulatedFrontEnd(self.processes, number)

        self.processes.after(self.random.randint(50, 1_500), start)

    def _break_client(self) -> None:
        calls = [call for each in self.front_ends for call in each.calls if not call.broken]
        if calls:
            self.random.choice(calls).break_()

    def _break_partition(self) -> None:
        ways = [way for each in self.front_ends for way in each.ways.values()]
        call = self.random.choice(ways).call
        if call is not None:
            call.break_()

    def _move_client(self) -> None:
        streams = [stream for each in self.front_ends for stream in each.streams]
        if streams:
            self.random.choice(streams).move()

    def _move_partition(self) -> None:
        ways = [way for each in self.front_ends for way in each.ways.values()]
        self.random.choice(ways).move()

    # The end

    def broken(self) -> list[str]:
        """Return what was broken."""
        found = list(self.history.violations)
        found += [f"lost: {name}: {sorted(left)}" for name, left in self.history.lost().items()]
        return found


async def world(seed: int, seconds: float = 20.0, *, faults: bool = True) -> World:
    """Return a world that has ended."""
    made = World(seed, faults=faults)
    await made.run(seconds, faults=faults)
    return made
