"""One run: a bus, load, faults, then peace; everything left is received, and the history judged."""

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bendybus.client import ServiceBusReceiveMode, ServiceBusSubQueue
from bendybus.client.aio import ServiceBusClient, ServiceBusReceiver
from bendybus.client.exceptions import AzureError, ResourceExistsError
from bendybus.client.management import ServiceBusAdministrationClient
from tests import sdk_leftovers
from tests.chaos import (
    amqp_load,
    checking,
    forward_load,
    lease_checking,
    lease_load,
    nemesis,
    pipeline_load,
    transaction_load,
)
from tests.chaos.checking import Excuses
from tests.chaos.cluster import FRONT_ENDS, Cluster
from tests.chaos.history import LOCK_S, History, Kind, Outcome
from tests.chaos.load import DEAD, ORDERS, TAKEN, Load
from tests.chaos.more_load import EVENTS, SESSIONS, SUBSCRIPTION
from tests.chaos.violation import Violation

# How long the bus may take to give all it has when nothing is broken any more: locks of calls
# that failed have to end first, and front ends back off from partitions that were away.
DRAIN_S_MAX: Final = 60.0
# What is forwarded may wait for an answer that was lost.
QUIET_S: Final = LOCK_S + 10.0


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run."""

    seed: int
    faults: int
    outcomes: dict[str, int]
    possible_duplicates: int
    violations: list[Violation]
    took_s: float
    # How often rules of leases were judged.
    judged: Counter[str]
    # For how long the load stood still itself.
    stalled_s: float = 0.0


def run(
    seed: int,
    folder: Path,
    lasts_s: float,
    amqp_senders: int = amqp_load.SENDERS,
    beside: Path | None = None,
) -> tuple[Report, History]:
    """Do one run. Raises nothing for what the bus does wrong: that is in the report.

    `amqp_senders`: connections over AMQP of each front end that send. `beside`: see `Cluster`.
    """
    began = time.monotonic()
    history = History()
    cluster = Cluster(folder, beside, seed)
    try:
        with cluster.administration() as administration:
            _create(administration)
        steps = nemesis.plan(seed, lasts_s, Cluster.names())
        stuck, doubles = asyncio.run(_lead(cluster, history, seed, steps, lasts_s, amqp_senders))
        with cluster.administration() as administration:
            counted = _counted(administration)
    finally:
        cluster.end()
        sdk_leftovers.collect()
    # At most once: what a broken call was to bring is gone, and cannot be counted from outside.
    takes_lost = 1_000_000 if history.faults else 0
    excuses = Excuses(doubles, takes_lost, history.stalls)
    violations = stuck + counted + checking.check(history.operations, excuses)
    unfair, judged = lease_checking.check(history.operations, history.faults)
    violations += unfair
    outcomes = Counter(f"{each.kind} {each.outcome}" for each in history.operations)
    faults = sum(not each.over for each in history.faults)
    took_s = time.monotonic() - began
    report = Report(
        *(seed, faults, dict(outcomes), len(doubles), violations, took_s, judged),
        stalled_s=excuses.stood_still_s(0.0, time.time()),
    )
    return report, history


def _create(administration: ServiceBusAdministrationClient) -> None:
    options: dict[str, Any] = {
        "lock_duration": timedelta(seconds=LOCK_S),
        "max_delivery_count": 1_000,
    }
    parts: dict[str, Any] = {"enable_partitioning": True}
    # Should one exist, a repeat of the call finds what the call made.
    for name in (ORDERS, TAKEN, SESSIONS):
        with contextlib.suppress(ResourceExistsError):
            sessions = name == SESSIONS
            administration.create_queue(name, requires_session=sessions, **parts, **options)
    with contextlib.suppress(ResourceExistsError):
        leases = options | {"lock_duration": timedelta(seconds=lease_load.LEASE_S)}
        administration.create_queue(lease_load.LEASES, requires_session=True, **parts, **leases)
    with contextlib.suppress(ResourceExistsError):
        administration.create_topic(EVENTS, **parts)
    with contextlib.suppress(ResourceExistsError):
        administration.create_subscription(EVENTS, SUBSCRIPTION, **options)
    forward_load.create(administration, options)
    transaction_load.create(administration, options)
    pipeline_load.create(administration, options)
    amqp_load.create(administration, options)


async def _lead(
    cluster: Cluster,
    history: History,
    seed: int,
    steps: list[nemesis.Step],
    lasts_s: float,
    amqp_senders: int,
) -> tuple[list[Violation], frozenset[str]]:
    clients = [
        ServiceBusClient.from_connection_string(
            cluster.connection_string(n), retry_total=2, retry_backoff_factor=0.1
        )
        for n in range(FRONT_ENDS)
    ]
    loads = [
        Load(
            *(f"s{seed}c{n}", client, history, seed * 100 + n),
            cluster=cluster,
            front_end=n,
            amqp_senders=amqp_senders,
        )
        for n, client in enumerate(clients)
    ]
    breaking = threading.Thread(target=nemesis.Nemesis(cluster, history, steps).run, name="nemesis")
    try:
        async with asyncio.TaskGroup() as tasks:
            for load in loads:
                tasks.create_task(load.run(), name=load.name)
            watching = tasks.create_task(history.watch())
            breaking.start()
            await asyncio.sleep(lasts_s)
            await asyncio.to_thread(breaking.join)
            watching.cancel()
            for load in loads:
                load.stop.set()
        stuck = await _drain(cluster, loads, history)
        doubles = [await load.possible_duplicates() for load in loads]
        return stuck, frozenset().union(*doubles)
    finally:
        if breaking.ident is not None:
            await asyncio.to_thread(breaking.join)
        for client in clients:
            await client.close()


async def _drain(cluster: Cluster, loads: list[Load], history: History) -> list[Violation]:
    """Receive and complete all that is left, through a client that lived through everything.

    It ends when the bus counts nothing (should it be wrong, what is left is missed), or gave
    nothing for longer than a lock lasts.
    """
    load = loads[0]
    deferred = {n: body for each in loads for n, body in each.deferred.items()}
    sub_queue = ServiceBusSubQueue.DEAD_LETTER
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    began = quiet_since = time.monotonic()
    async with (
        load.client.get_queue_receiver(ORDERS) as orders,
        load.client.get_queue_receiver(ORDERS, sub_queue=sub_queue) as dead,
        load.client.get_queue_receiver(TAKEN, receive_mode=mode) as taken,
        load.client.get_subscription_receiver(EVENTS, SUBSCRIPTION) as events,
        load.client.get_queue_receiver(forward_load.SORTED) as arrived,
        load.client.get_queue_receiver(forward_load.LETTERS) as letters,
        load.client.get_queue_receiver(transaction_load.REQUESTS) as requests,
        load.client.get_queue_receiver(transaction_load.ANSWERS) as answers,
        load.client.get_queue_receiver(pipeline_load.DRAINED) as drained,
        load.client.get_queue_receiver(amqp_load.AMQP) as amqp,
    ):
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: _deferred(load, orders, deferred),
            lambda: _some(load, orders, ORDERS),
            lambda: _some(load, dead, DEAD),
            lambda: load.receive(taken, TAKEN, "drain", 200, Kind.TAKE),
            lambda: load.more.some_events(events, "drain"),
            lambda: load.forwarding.some_letters(letters),
            lambda: load.forwarding.some_arrived(arrived, "drain"),
            lambda: load.more.one_session("drain", wait_s=0.5),
            load.leases.rest,
            lambda: load.transactions.some_requests(requests, "drain"),
            lambda: load.transactions.one_session("drain", wait_s=0.5),
            lambda: load.transactions.some_answers(answers, "drain"),
            lambda: load.pipelines.some_drained(drained, "drain"),
            lambda: _some(load, amqp, amqp_load.AMQP),
            lambda: load.more.one_session("drain", wait_s=0.5, place=amqp_load.AMQP_SESSIONS),
        ]
        while time.monotonic() - quiet_since < QUIET_S:
            if time.monotonic() - began > DRAIN_S_MAX:
                left = f"after {DRAIN_S_MAX:.0f} s the bus still gives messages or errors"
                return [Violation("stuck", "", 0, left)]
            before = len(history.operations)
            for step in steps:
                await _repeat(step, history, until=began + DRAIN_S_MAX)
            if len(history.operations) > before:
                quiet_since = time.monotonic()
            elif not await asyncio.to_thread(_left, cluster):
                break
    return []


async def _repeat(step: Callable[[], Awaitable[object]], history: History, until: float) -> None:
    """Repeat a step while it finds something: how much is left must not decide the verdict."""
    while time.monotonic() < until:
        before = len(history.operations)
        await step()
        if len(history.operations) == before:
            break


async def _deferred(load: Load, orders: ServiceBusReceiver, deferred: dict[int, str]) -> None:
    for number in list(deferred):
        if await load.complete_deferred(orders, "drain", number):
            del deferred[number]


async def _some(load: Load, receiver: ServiceBusReceiver, place: str) -> None:
    if found := await load.receive(receiver, place, "drain", 200):
        await load.complete_all(receiver, place, "drain", found)


def _left(cluster: Cluster) -> bool:
    with cluster.administration() as administration:
        return bool(_counted(administration))


def _counted(administration: ServiceBusAdministrationClient) -> list[Violation]:
    """Return what the bus still counts, with all messages completed."""
    found = []
    places = (ORDERS, TAKEN, SESSIONS, EVENTS, pipeline_load.DRAINED, lease_load.LEASES)
    for name in (*places, *forward_load.PLACES, *transaction_load.PLACES, *amqp_load.PLACES):
        counts: Any = None
        try:
            if name in (EVENTS, forward_load.NEWS):
                counts = administration.get_subscription_runtime_properties(name, SUBSCRIPTION)
            else:
                counts = administration.get_queue_runtime_properties(name)
        except AzureError as error:
            found.append(Violation("counts", "", 0, f"{name}: {error}"))
            continue
        for field in (
            "active_message_count",
            "dead_letter_message_count",
            "scheduled_message_count",
            "total_message_count",
        ):
            if getattr(counts, field, 0):
                text = f"{name}: {field} is {getattr(counts, field)} after everything was completed"
                found.append(Violation("counts", "", 0, text))
    return found


def summary(report: Report) -> str:
    """Return a line for people."""
    rules = Counter(each.rule for each in report.violations)
    told = ", ".join(f"{count} {rule}" for rule, count in rules.items()) or "clean"
    sends = {o: report.outcomes.get(f"{Kind.SEND} {o}", 0) for o in Outcome}
    calls = sum(report.outcomes.values())
    return (
        f"seed {report.seed}: {report.faults} faults, {calls} calls, sends "
        + ", ".join(f"{count} {outcome}" for outcome, count in sends.items())
        + f", {report.possible_duplicates} possible duplicates, {report.took_s:.0f} s"
        + (f", the load stood still for {report.stalled_s:.0f} s" if report.stalled_s > 1 else "")
        + f": {told}"
    )
