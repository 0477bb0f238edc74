"""Figures of `get`, `describe` and `top` where partitions do not answer."""

import pytest

from bendybus.domain.entity import Origin
from tests.cli.fake_management import FakeManagement
from tests.cli.test_entity_commands import run

pytestmark = pytest.mark.requirement("R666")
TOP = ["top", "--interval", "0.5"]


def test_a_sum_that_lacks_a_partition_says_so(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.unreached = (3, 7)
    bus.add("orders", Origin.CLIENT, enable_partitioning=True)

    code = run(bus, "get", "orders")

    said = capsys.readouterr()
    assert code == 5
    assert said.out.splitlines()[1].split() == (
        ["orders", "16", "Active", "Limited", "16+", "0+", "0+"]
    )
    assert said.err == (
        "bendybus: Partitions 3 and 7 did not answer: the figures of 1 entity lack what is there. "
        "47+ means at least 47, and - is not known.\n"
    )


def test_a_sum_of_all_partitions_is_whole(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str]
) -> None:
    bus.unreached = ()
    bus.add("orders", Origin.CLIENT, enable_partitioning=True)

    codes = [run(bus, *words) for words in (["get"], ["describe", "queue", "orders"], TOP)]

    said = capsys.readouterr()
    assert (codes, said.err) == ([0, 0, 0], "")
    assert "+" not in said.out
