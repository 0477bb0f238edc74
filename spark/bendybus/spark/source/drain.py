"""The drain lease of a streaming query: taken, renewed and used to settle in the background.

    batch n is committed ──► settle(n) ──► all partitions at once ──┐
    batch n + 1 is committed ──► await_settled ◄────────────────────┘ ──► settle(n + 1)

Spark never tells a source that its query stopped, so the lease ends by its time unless the query
reads what is available now and is done.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from bendybus.client.exceptions import DrainLeaseLostError, ServiceBusError
from bendybus.spark import bus_errors
from bendybus.spark.bus import Bus, Lease
from bendybus.spark.errors import PipelineError

logger = logging.getLogger(__name__)
# Renewals within the lease's duration.
RENEWALS: Final = 3
# Partitions that are settled at once: what a bus has of them at most.
SETTLED_AT_ONCE: Final = 16
# While partitions are not ready, the lease is renewed more often, to look again.
LOOK_S: Final = 1.0


class Drain:
    """The lease of one query. Thread-safe."""

    def __init__(
        self,
        bus: Bus,
        path: str,
        owner: str,
        duration_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the lease. Raises ServiceBusError."""
        self.owner = owner
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._lease: Lease = bus.lease(owner, duration_s)
        self._renewed_at = clock()
        self._every_s = duration_s / RENEWALS
        self._lost: PipelineError | None = None
        self._ended = threading.Event()
        # By partition and incarnation: up to which number.
        self._settled: dict[tuple[int, str], int] = {}
        self._settling: list[Future[None]] = []
        # Partitions that were ready at some time: only these were read.
        self._held: set[int] = set()
        self._pool = ThreadPoolExecutor(SETTLED_AT_ONCE, f"bendybus-settle {path}")
        self._thread = threading.Thread(
            target=self._keep, name=f"bendybus-drain {path}", daemon=True
        )

    @property
    def epoch(self) -> int:
        """The epoch of the lease, which tasks on executors settle under."""
        return self._lease.epoch

    def keep(self) -> "Drain":
        """Renew the lease in the background from now on."""
        self._thread.start()
        return self

    def ready(self) -> frozenset[int]:
        """Return the partitions that may be read. Raises LeaseLostError, ServiceBusError."""
        self._check()
        if self._lease.waiting and self._clock() - self._renewed_at >= LOOK_S:
            self._renew()
        self._check()
        self._held |= self._lease.ready
        return self._lease.ready

    def why_waiting(self) -> dict[int, str]:
        """Return why each of the other partitions may not be read yet."""
        return {
            each.partition: (
                bus_errors.one_line(each.error.message)
                if each.error is not None
                else _locked(each.locked_message_count)
            )
            for each in self._lease.waiting
        }

    def settle(self, numbers: Mapping[int, tuple[int, str]]) -> None:
        """Begin to remove what is at or below these numbers, by partition, in the background.

        `numbers`: each with the incarnation that it is of. STRICTLY AFTER what was begun before, so
        that what is committed and not removed stays bounded. What cannot be done now is done by a
        later call. Raises LeaseLostError, ServiceBusError, also of what was begun before.
        """
        self.await_settled()
        ready = self.ready()
        self._settling = [
            self._pool.submit(self._settle, partition, number, incarnation)
            for partition, (number, incarnation) in numbers.items()
            if partition in ready and self._settled.get((partition, incarnation), -1) < number
        ]

    def await_settled(self) -> None:
        """Wait for what is being removed. Raises LeaseLostError, ServiceBusError."""
        begun, self._settling = self._settling, []
        # All of them, before the first error is raised.
        wait(begun)
        for each in begun:
            each.result()
        self._check()

    def behind(self, numbers: Mapping[int, tuple[int, str]]) -> list[int]:
        """Return the partitions that were ready, and where not all of this was removed.

        `numbers`: as `settle` takes them. STRICTLY AFTER `await_settled`.
        """
        return [
            partition
            for partition, (number, incarnation) in numbers.items()
            if partition in self._held and self._settled.get((partition, incarnation), -1) < number
        ]

    def _settle(self, partition: int, number: int, incarnation: str) -> None:
        try:
            self._lease.settle_up_to(partition, number, incarnation=incarnation)
            self._settled[partition, incarnation] = number
        except bus_errors.RETRYABLE as error:
            logger.warning("%s/%d: not settled yet: %s", self._path, partition, error)
        except DrainLeaseLostError as error:
            self._lost = bus_errors.of_bus(self._path, error)

    def release(self) -> None:
        """End the lease, so that receivers get messages at once. STRICTLY AFTER `await_settled`."""
        self._ended.set()
        self._pool.shutdown(wait=False)
        try:
            self._lease.release()
        except ServiceBusError as error:
            # It ends by its time.
            logger.warning("%s: the lease was not released: %s", self._path, error)

    def _keep(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._renew()
            except ServiceBusError as error:
                logger.warning("%s: the lease was not renewed: %s", self._path, error)
            except Exception as error:  # a boundary: the query must not go on without its lease
                self._lost = PipelineError(f"{self._path}: the lease is not renewed: {error!r}")
                raise
            if self._lost is not None:
                return

    def _renew(self) -> None:
        with self._lock:
            self._renewed_at = self._clock()
            try:
                self._lease.renew()
            except DrainLeaseLostError as error:
                self._lost = bus_errors.of_bus(self._path, error)

    def _check(self) -> None:
        if self._lost is not None:
            raise self._lost


def _locked(count: int) -> str:
    return f"{count} message{' is' if count == 1 else 's are'} locked by receivers"
