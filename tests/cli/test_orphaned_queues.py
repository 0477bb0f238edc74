"""Orphaned queues in `get`, `describe`, `delete` and `apply`."""

import pytest

from bendybus.domain.entity import Origin
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import FLIGHTS, run


def test_orphans_are_listed_only_if_asked_for(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("live", Origin.MANIFEST)
    bus.add("lost", Origin.MANIFEST, orphaned=True)

    run(bus, "get", "queues")
    some = capsys.readouterr().out
    run(bus, "get", "queues", "--all")
    everything = capsys.readouterr().out.splitlines()

    assert "lost" not in some
    assert [line.split()[:3] for line in everything[1:]] == [
        ["live", "1", "Active"],
        ["lost", "1", "Orphaned"],
    ]


def test_describe_says_what_to_do_with_an_orphan(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("lost", Origin.MANIFEST, orphaned=True)

    code = run(bus, "describe", "queue", "lost")

    shown = capsys.readouterr().out
    assert code == 0
    assert "Orphaned" in shown
    assert "bendybus.io/retained-data: adopt" in shown
    assert "bendybus delete queue lost" in shown


def test_deleting_an_orphan_is_a_purge_and_asks_as_for_others(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("lost", Origin.MANIFEST, orphaned=True)

    asked = run(bus, "delete", "queue", "lost")
    done = run(bus, "delete", "queue", "lost", "--yes")

    shown = capsys.readouterr()
    assert (asked, done) == (2, 0)
    assert "Purge orphaned queue 'lost' and its 1 messages?" in shown.err
    assert "queue 'lost': purged" in shown.out


def test_apply_does_not_take_an_orphan_over_by_its_name(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.add("audit", Origin.MANIFEST, orphaned=True)
    bus.add("elsewhere", Origin.MANIFEST, orphaned=True)

    code = run(bus, "apply", "-f", FLIGHTS)

    told = capsys.readouterr().err
    assert code == 1
    assert bus.calls == []
    assert "queue 'audit' holds the data of a deleted manifest" in told
    assert "bendybus delete queue audit" in told
