"""Partitions take what they lack of the catalogue from the registrar; nobody has to copy it."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from bendybus.client.exceptions import HttpResponseError
from bendybus.client.management import CorrelationRuleFilter
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.lifecycle import EntityAction
from bendybus.internal.v1 import entity_pb2, entity_pb2_grpc
from bendybus.wire import catalogue
from bendybus.wire.contract_versions import FRONT_END
from tests.integration.processes import Bus, Process, eventually
from tests.ports import HOST, free_port


@contextlib.contextmanager
def running(folder: Path, partitions: int = 3) -> Iterator[Bus]:
    """Run a bus of two or four partitions."""
    bus = Bus(folder, partitions=2 if partitions < 3 else 4)
    try:
        yield bus
    finally:
        bus.end()


def stub_of(bus: Bus, partition: int) -> entity_pb2_grpc.EntityServiceStub:
    """Return what calls of the catalogue of a partition are made with."""
    return entity_pb2_grpc.EntityServiceStub(
        grpc.insecure_channel(bus.partitions[partition].address)
    )


def commit(bus: Bus, action: EntityAction, name: str, kind: EntityKind = EntityKind.QUEUE) -> None:
    """Have the registrar change an entity, as a front end would that dies before it copies it."""
    request = catalogue.commit_request(
        kind, name, {}, action=entity_pb2.EntityAction.Value(f"ENTITY_ACTION_{action.name}")
    )
    stub_of(bus, 0).CommitEntity(request, timeout=10)


def catalogue_of(bus: Bus, partition: int) -> tuple[dict[str, Entity], bool]:
    """Return what a partition has by name, and whether it takes what it lacks by itself."""
    call = stub_of(bus, partition).WatchEntities(
        catalogue.watch_request(FRONT_END, partition), timeout=10
    )
    first = next(response for response in call if response.snapshot)
    call.cancel()
    return {
        entry.name: entry for entry in catalogue.entries_of(first, lambda key: None)
    }, first.pulls


def agree(bus: Bus) -> bool:
    """Whether all partitions have what the registrar has."""
    registrar, _ = catalogue_of(bus, 0)
    return all(catalogue_of(bus, index)[0] == registrar for index in range(1, bus.count))


@pytest.mark.requirement("R481")
def test_partitions_take_changes_without_a_front_end_or_an_operator(tmp_path: Path) -> None:
    with running(tmp_path) as bus:
        bus.front_end.kill()

        commit(bus, EntityAction.CREATE, "orders")
        commit(bus, EntityAction.CREATE, "sales", EntityKind.TOPIC)
        for number in range(3):
            commit(
                bus, EntityAction.CREATE, f"sales/Subscriptions/s{number}", EntityKind.SUBSCRIPTION
            )
        commit(bus, EntityAction.DELETE, "orders")

        eventually(lambda: agree(bus), within_s=10, what="all partitions have the catalogue")
        known, pulls = catalogue_of(bus, 2)
        assert pulls
        assert known["orders"].deleted
        assert "sales/Subscriptions/s2" in known


@pytest.mark.requirement("R481")
def test_a_partition_that_was_away_takes_what_it_missed(tmp_path: Path) -> None:
    with running(tmp_path) as bus:
        bus.front_end.kill()
        bus.partitions[1].kill()
        commit(bus, EntityAction.CREATE, "orders")
        commit(bus, EntityAction.CREATE, "sales", EntityKind.TOPIC)
        commit(bus, EntityAction.CREATE, "sales/Subscriptions/all", EntityKind.SUBSCRIPTION)

        bus.start_partition(1)

        eventually(lambda: agree(bus), within_s=10, what="the partition has what it missed")


@pytest.mark.requirement("R481")
def test_a_partition_says_that_it_pulls_while_it_watches_the_registrar(tmp_path: Path) -> None:
    with running(tmp_path, 2) as bus:
        eventually(lambda: catalogue_of(bus, 1)[1], within_s=10, what="partition 1 pulls")
        assert not catalogue_of(bus, 0)[1]
        watch = stub_of(bus, 1).WatchEntities(catalogue.watch_request(FRONT_END, 1), timeout=60)
        assert next(watch).pulls

        bus.partitions[0].kill()

        news = next(watch)
        assert not news.pulls
        assert not news.snapshot
        assert not news.entities
        bus.start_partition(0)
        assert next(watch).pulls


@pytest.mark.requirement("R481")
def test_the_registrar_pulls_from_nobody_also_beside_others_in_its_process(tmp_path: Path) -> None:
    server = Process(
        "bendybus.partition_server",
        "serve",
        f"--data={tmp_path}",
        "--namespace-name=test",
        "--namespace-uid=uid",
        "--tier=Premium",
        "--partition-count=2",
        "--partitions=0,1",
        f"--listen={HOST}:{free_port()}",
        log=tmp_path / "server.log",
    )
    bus: Any = SimpleNamespace(partitions={0: server, 1: server}, count=2)
    try:
        commit(bus, EntityAction.CREATE, "orders")

        eventually(lambda: agree(bus), within_s=10, what="partition 1 has the change")
        assert [catalogue_of(bus, index)[1] for index in (0, 1)] == [False, True]
    finally:
        server.end()


@pytest.mark.requirement("R481")
def test_a_change_returns_when_all_partitions_have_taken_it(tmp_path: Path) -> None:
    with running(tmp_path) as bus, bus.administration() as administration:
        for number in range(20):
            administration.create_queue(f"q{number}")
            assert all(f"q{number}" in catalogue_of(bus, index)[0] for index in range(bus.count))
        administration.create_topic("sales")
        administration.create_subscription("sales", "some")
        administration.create_rule("sales", "some", "r", filter=CorrelationRuleFilter(label="x"))
        assert agree(bus)


@pytest.mark.requirement("R481")
def test_a_front_end_copies_to_partitions_whose_registrar_shows_them_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path, 2) as bus:
        bus.partitions[1].kill()
        bus.start_partition(1, peers=False)

        with bus.administration() as administration:
            eventually(lambda: not catalogue_of(bus, 1)[1], what="partition 1 does not pull")
            administration.create_queue("orders")

        assert "orders" in catalogue_of(bus, 1)[0]


@pytest.mark.requirement("R481")
def test_a_suspended_partition_is_named_and_takes_the_change_when_it_goes_on(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as bus, bus.administration() as administration:
        bus.partitions[3].signal(signal.SIGSTOP)
        with pytest.raises(HttpResponseError, match=r"partitions \[3\] could not be reached"):
            administration.create_queue("orders")
        assert "orders" in catalogue_of(bus, 1)[0]

        bus.partitions[3].signal(signal.SIGCONT)

        eventually(lambda: agree(bus), within_s=20, what="partition 3 has the change")
