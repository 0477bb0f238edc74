"""The front end's core, wired together: which part hears what from a partition.

Upstream (one per partition) ──► FrontEnd ──► dispatchers of sends, receives and settlements,
                                              directory of entities
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from bendybus.domain import limits, subscription_name
from bendybus.domain.directory import Directory
from bendybus.domain.entity import Entity, Fingerprint
from bendybus.domain.lifecycle import EntityState
from bendybus.frontend.core.by_number import Unfinished
from bendybus.frontend.core.catalogue_copies import CatalogueCopies
from bendybus.frontend.core.manage import EntityManager
from bendybus.frontend.core.metrics import Metrics
from bendybus.frontend.core.quota.bounds import TOKEN_BYTES
from bendybus.frontend.core.quota.flow_control import FlowControl
from bendybus.frontend.core.quota.quota import Quota
from bendybus.frontend.core.receive import ReceiveDispatcher
from bendybus.frontend.core.repeated_sends import RepeatedSends
from bendybus.frontend.core.send import SendDispatcher
from bendybus.frontend.core.sessions import SessionDispatcher
from bendybus.frontend.core.settle import SettleDispatcher
from bendybus.frontend.core.shared_sends import SharedSends
from bendybus.frontend.core.transact import TransactionDispatcher
from bendybus.frontend.settings import Settings
from bendybus.frontend.upstreams import deliver_frames, send_frames
from bendybus.frontend.upstreams.upstream import Upstream

if TYPE_CHECKING:
    import grpc

logger = logging.getLogger(__name__)
LAG_CHECK_S: Final = 1.0


class FrontEnd:
    """One front end."""

    def __init__(
        self, settings: Settings, credentials: "grpc.ChannelCredentials | None" = None
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.directory = Directory()
        self.quota = Quota(by_policy=settings.access_policies is not None)
        self.metrics.name_by(self.directory.name_of)
        self.upstreams = {
            partition: Upstream(partition, address, settings, self, credentials)
            for partition, address in sorted(settings.partitions.items())
        }
        self.sends = SendDispatcher(self.upstreams, self.directory, self.metrics, self.quota.sends)
        # For requests that have no name of their client.
        self.nameless_sends = RepeatedSends(SharedSends(self.sends), self.sends)
        self.receives = ReceiveDispatcher(self.upstreams, self.directory, self.metrics)
        timeout_s = settings.unary_timeout_s
        # Messages have separate counts: a client that reads none may go on sending and settling,
        # whose answers are counted together.
        self.deliveries, self.send_answers = FlowControl(self.receives), FlowControl()
        self.sessions = SessionDispatcher(self.upstreams, self.receives, timeout_s=timeout_s)
        self.settles = SettleDispatcher(self.upstreams, self.metrics)
        self.transactions = TransactionDispatcher(
            self.upstreams, self.directory, self.metrics, self.quota
        )
        self.cancellations = Unfinished()
        self.copies = CatalogueCopies(self.upstreams, self.directory, timeout_s)
        self.manager = EntityManager(self.upstreams, self.directory, self.copies, timeout_s)

    async def run(self) -> None:
        """Keep the connections to all partitions open until cancelled."""
        async with asyncio.TaskGroup() as group:
            for upstream in self.upstreams.values():
                group.create_task(upstream.run(), name=f"upstream-{upstream.partition}")
            group.create_task(self.copies.run(), name="catalogue-copies")
            group.create_task(self._measure(), name="measure")

    async def flush(self, timeout_s: float) -> None:
        """Wait, for a bounded time, until partitions have read which messages were delivered.

        What a partition did not read is lost with the stream: it would deliver to others messages
        that clients of this front end have.
        """
        flushing = [asyncio.create_task(each.flush()) for each in self.upstreams.values()]
        if flushing:
            _, late = await asyncio.wait(flushing, timeout=timeout_s)
            for task in late:
                task.cancel()

    def renew(self, credentials: "grpc.ChannelCredentials") -> None:
        """Move to new channels to all partitions."""
        for upstream in self.upstreams.values():
            upstream.renew(credentials)

    def ready(self) -> bool:
        """Whether this front end can serve: some partition answers, and entities are known."""
        reachable = any(upstream.available for upstream in self.upstreams.values())
        return reachable and self.directory.fingerprint is not None

    def accounted_bytes(self) -> int:
        """Return the bytes of requests, answers and messages that are counted somewhere."""
        unread = self.deliveries.unread_bytes + self.send_answers.unread_bytes
        settling = self.deliveries.tokens * TOKEN_BYTES
        return self.receives.held.total + unread + settling + self.quota.accounted_bytes()

    def message_bytes_max(self, entity_path: str) -> int:
        """Return the largest message that an entity, or the topic of a subscription, may have."""
        name = subscription_name.family(entity_path.partition("/$")[0].lower())
        fingerprint, entity = self.directory.fingerprint, self.directory.known(name)
        if fingerprint is None or entity is None:
            return limits.MB
        return entity.message_bytes_max(fingerprint.tier)

    def send_limits(self, name: str) -> tuple[int, int]:
        """Return the largest message and the largest atomic batch of an entity, in bytes.

        Raises what `Directory.find` does.
        """
        entity, fingerprint = self.directory.find(name), self.directory.fingerprint
        assert fingerprint is not None, "an entity is known, so its namespace is"
        return entity.message_bytes_max(fingerprint.tier), limits.batch_bytes_max(fingerprint.tier)

    # upstreams.Listener

    def sent(self, partition: int, answer: send_frames.Answer) -> None:
        """Pass an outcome on."""
        self.sends.answered(partition, answer)

    def delivered(self, partition: int, answer: deliver_frames.Answer) -> None:
        """Pass messages or outcomes on."""
        if isinstance(answer, deliver_frames.Settled):
            self.settles.settled(answer)
        elif not self.receives.delivered(partition, answer):
            self.sessions.answered(partition, answer)

    def send_stream_lost(self, partition: int, why: str) -> None:
        """Let frames go elsewhere."""
        self.sends.lost(partition, why)
        self.copies.changed()

    def deliver_stream_lost(self, partition: int, why: str) -> None:
        """Forget what the partition had reserved."""
        self.settles.lost(partition, why)
        self.receives.lost(partition)
        self.sessions.lost(partition)
        self.copies.changed()

    def deliver_stream_moving(self, partition: int) -> None:
        """Ask again on the next stream for what was asked for on this one."""
        self.receives.moving(partition)
        self.sessions.moving(partition)

    def stalled(self, partition: int, why: str) -> None:
        """Give up on what only this partition could store."""
        self.sends.stalled(partition, why)
        self.copies.changed()

    def back(self, partition: int) -> None:
        """Ask the partition for messages again, and bring it up to date."""
        self.copies.changed()
        self.receives.back(partition)
        self.sessions.back(partition)

    def entry(self, key: str) -> Entity | None:
        """Return the newest known entry of a name in lower case; it may be a tombstone."""
        return self.directory.entry(key)

    def catalogue(
        self, partition: int, fingerprint: Fingerprint, entries: list[Entity], *, snapshot: bool
    ) -> None:
        """Learn entities; bring partitions that lag up to date."""
        own = self.directory.fingerprint
        if own is not None and own.namespace_uid != fingerprint.namespace_uid:
            logger.error(
                "partition %d: belongs to namespace %s, not to %s; its entities are ignored",
                partition,
                fingerprint.namespace_uid,
                own.namespace_uid,
                extra={"partition": partition, "action": "fingerprint"},
            )
            return
        for entity in self.directory.update(partition, fingerprint, entries, snapshot=snapshot):
            logger.info(
                "%s %s: generation %d%s",
                entity.kind,
                entity.name,
                entity.generation,
                "" if entity.state is EntityState.LIVE else f" ({entity.state.lower()})",
                extra={"entity": entity.name, "partition": partition, "action": "learned"},
            )
        self.copies.changed()

    def catalogue_lost(self, partition: int) -> None:
        """Forget what the partition has."""
        self.directory.forget(partition)

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(LAG_CHECK_S)
            metrics = self.metrics
            metrics.loop_lag.set(max(0.0, loop.time() - began - LAG_CHECK_S))
            metrics.cached.set(self.receives.cached())
            metrics.under_way.set(self.sends.under_way())
            metrics.open_transactions.set(self.transactions.open())
            for partition, upstream in self.upstreams.items():
                metrics.breakers.labels(str(partition)).set(not upstream.available)
