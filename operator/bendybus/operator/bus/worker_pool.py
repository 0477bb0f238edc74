"""The processes that talk to partitions: a few that share all buses, and some for a bus alone.

A bus whose answer ended a worker is read by a worker of its own from then on, which is started
again after a growing pause. Their number is fixed, and each is bounded, so that all of them and the
operator stay below the memory of the pod; a bus may have to wait for its turn.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from bendybus.domain.backoff import Backoff
from bendybus.domain.errors import PartitionUnavailable
from bendybus.operator.bus.partition_channel import Metadata
from bendybus.operator.bus.worker import MARK_BYTES, TRUST
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.wire import tls

logger = logging.getLogger(__name__)
SHARED: Final = 2
OWN_MAX: Final = 2
START_S: Final = 30.0
# About 40 MB of it are the program.
DATA_BYTES: Final = 160 * 1024 * 1024
AGAIN: Final = Backoff(first_s=0.2, max_s=5.0, reset_after_s=60.0)
# Of a worker of its own; after so long without an end the bus is read with others again.
OWN_AGAIN: Final = Backoff(first_s=1.0, max_s=60.0, reset_after_s=300.0)
FORGIVEN_S: Final = 600.0
# The C library takes the size of threads' stacks from this limit when a program starts; 8 MB for
# each of gRPC's threads, which are more on larger nodes, would use up the bound.
_SMALL_STACKS: Final = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20)); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass
class _Running:
    """A worker that can be called, and whose certificates it has been given."""

    channel: grpc.aio.Channel
    process: asyncio.subprocess.Process
    trusted: set[str] = field(default_factory=set)


class _Slot:
    """A worker that is started again when it has ended."""

    def __init__(self, directory: Path, name: str, data_bytes: int) -> None:
        self._directory, self.name, self._data_bytes = directory, name, data_bytes
        self.running: _Running | None = None
        # Set from when it ran first.
        self.started = asyncio.Event()

    async def run_once(self) -> str:
        """Run a worker to its end; return whose answer ended it: NAMESPACE/NAME#PARTITION or ""."""
        mark = self._directory / f"{self.name}.mark"
        mark.write_bytes(bytes(MARK_BYTES))
        socket = self._directory / f"{self.name}.sock"
        socket.unlink(missing_ok=True)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _SMALL_STACKS, "-m", "bendybus.operator.bus.worker"),
            *(str(socket), str(mark), str(self._data_bytes)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"MALLOC_ARENA_MAX": "2"},
        )
        channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_S):
                await process.stdout.readline()
            self.running = _Running(channel, process)
            self.started.set()
            await process.wait()
        except TimeoutError:
            logger.error("worker %s: did not start in %.0f s", self.name, START_S)
        finally:
            self.running = None
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await channel.close()
        return mark.read_bytes().rstrip(b"\0").decode(errors="replace")


@dataclass
class _Own:
    """A bus that has a worker of its own, or waits for one."""

    partition: int
    slot: _Slot | None = None
    task: asyncio.Task[None] | None = None


class WorkerPool:
    """Which worker a bus is read by."""

    def __init__(self, data_bytes: int = DATA_BYTES) -> None:
        """`data_bytes`: what each worker may allocate."""
        self._data_bytes = data_bytes
        self._folder = tempfile.TemporaryDirectory(prefix="bendybus-workers-")
        self._directory = Path(self._folder.name)
        self._shared = [self._slot(f"shared-{index}") for index in range(SHARED)]
        self._own: dict[str, _Own] = {}
        self._places = asyncio.Semaphore(OWN_MAX)
        self._group: asyncio.TaskGroup | None = None

    async def started(self) -> None:
        """Wait until every shared worker runs, for a bounded time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                for slot in self._shared:
                    await slot.started.wait()

    def _slot(self, name: str) -> _Slot:
        return _Slot(self._directory, name, self._data_bytes)

    async def run(self) -> None:
        """Keep the workers running until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for slot in self._shared:
                    self._group.create_task(self._keep(slot), name=f"worker-{slot.name}")
        finally:
            self._folder.cleanup()

    async def _keep(self, slot: _Slot) -> None:
        loop, failures = asyncio.get_running_loop(), 0
        while True:
            began_s = loop.time()
            who = await slot.run_once()
            failures = AGAIN.failures_after(failures, loop.time() - began_s)
            delay_s = AGAIN.delay_s(failures)
            _say_end(slot, who, delay_s)
            bus, _, partition = who.rpartition("#")
            if bus and bus not in self._own:
                self._isolate(bus, int(partition))
            await asyncio.sleep(delay_s)

    def _isolate(self, bus: str, partition: int) -> None:
        assert self._group is not None
        own = self._own[bus] = _Own(partition)
        own.task = self._group.create_task(self._keep_own(bus, own), name=f"worker-{bus}")

    async def _keep_own(self, bus: str, own: _Own) -> None:
        """Run workers for one bus, until one has lasted for long."""
        failures = 1
        name = f"own-{hashlib.sha256(bus.encode()).hexdigest()[:16]}"
        while True:
            await asyncio.sleep(OWN_AGAIN.delay_s(failures))
            async with self._places:
                own.slot = slot = self._slot(name)
                try:
                    async with asyncio.timeout(FORGIVEN_S):
                        who = await slot.run_once()
                except TimeoutError:
                    del self._own[bus]
                    return
                finally:
                    own.slot = None
            failures += 1
            _say_end(slot, who, OWN_AGAIN.delay_s(failures))
            own.partition = int(who.rpartition("#")[2] or own.partition)

    def trouble(self, bus: ObjectKey) -> int | None:
        """Return the partition whose answer ended a worker, while its bus is read apart."""
        own = self._own.get(str(bus))
        return None if own is None else own.partition

    async def open(
        self, bus: ObjectKey, material: tls.Material | None
    ) -> tuple[grpc.aio.Channel, str]:
        """Return the channel to the worker of a bus, and the name of its certificate there.

        Raises PartitionUnavailable while there is none.
        """
        own = self._own.get(str(bus))
        slot = self._shared[zlib.crc32(str(bus).encode()) % SHARED] if own is None else own.slot
        if slot is None or slot.running is None:
            raise PartitionUnavailable("the process of the operator that asks it is being started.")
        return slot.running.channel, await _trusted(slot.running, material)


@dataclass(frozen=True, slots=True)
class Through:
    """The way to a partition through the worker of its bus."""

    pool: WorkerPool
    bus: ObjectKey
    partition: int
    address: str
    material: tls.Material | None

    async def open(self, *, large: bool) -> tuple[grpc.aio.Channel, Metadata]:
        """Return the channel to the worker, and what it is told. Raises PartitionUnavailable."""
        channel, material = await self.pool.open(self.bus, self.material)
        told = (
            ("bus", str(self.bus)),
            ("partition", str(self.partition)),
            ("address", self.address),
            ("material", material),
        )
        return channel, (*told, ("large", "true")) if large else told

    async def close(self) -> None:
        """Do nothing: others use the channel, too."""


async def _trusted(running: _Running, material: tls.Material | None) -> str:
    """Give a worker a certificate that it does not have; return its name, "" for none."""
    if material is None:
        return ""
    parts = (material.certificate, material.key, material.authorities)
    name = hashlib.sha256(b"\0".join(parts)).hexdigest()
    if name not in running.trusted:
        told = dict(
            zip(("certificate", "key", "authorities"), map(bytes.decode, parts), strict=True)
        )
        call: Any = running.channel.unary_unary(TRUST)
        await call(json.dumps({"id": name, **told}).encode(), timeout=START_S)
        running.trusted.add(name)
    return name


def _say_end(slot: _Slot, who: str, delay_s: float) -> None:
    logger.error(
        "worker %s: ended%s; starting again in %.1f s",
        slot.name,
        f" by an answer of {who}" if who else "",
        delay_s,
        extra={"action": "worker-ended"},
    )
