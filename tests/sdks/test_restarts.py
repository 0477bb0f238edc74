"""The short form of `make sdk-restarts`: no program sees an error at a graceful restart."""

from pathlib import Path

import pytest

from tests.sdks import conftest
from tests.sdks.restarts import KINDS, Plan, run


# azure-servicebus leaves sockets of connections that ended to the garbage collector, which may come
# at any time of the run. See sdk_leftovers.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.requirement("R518", "R600")
def test_programs_see_no_error_while_servers_restart(tmp_path: Path) -> None:
    conftest.needs_tools()

    found = run(tmp_path, Plan(seed=2, seconds=30.0))

    assert found.errors == {".NET": [], "Python": []}
    assert found.lost == {".NET": set(), "Python": set()}
    assert set(found.restarts) == set(KINDS)
    assert all({"send", "receive", "schedule", "peek"} <= set(each) for each in found.done.values())
