"""A program on the SDK for .NET sees no error while front ends are replaced."""

import contextlib
import time
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.sdks import conftest
from tests.sdks.dotnet_driver import Driver
from tests.sdks.loops import DotnetLoops
from tests.sdks.replaced_bus import ReplacedBus

LOADED_S: Final = 24.0
REPLACEMENTS: Final = 4
DISPOSITIONS: Final = ("complete", "abandon", "defer", "deadletter")


class Way(NamedTuple):
    """How a program comes to a bus."""

    tls: bool
    web_sockets: bool


WAYS: Final = {
    "plain": Way(tls=False, web_sockets=False),
    "tls": Way(tls=True, web_sockets=False),
    "web-sockets": Way(tls=True, web_sockets=True),
}


def hold(driver: Driver) -> list[str]:
    """Receive a message for each disposition; return the handles."""
    driver.call("sender", name="s-held", client="c", entity="held")
    driver.call("receiver", name="r-held", client="c", entity="held")
    driver.call("send", sender="s-held", messages=[{"body": each} for each in DISPOSITIONS])
    found: list[str] = []
    while len(found) < len(DISPOSITIONS):
        messages = driver.call("receive", receiver="r-held", max=4, waitS=2)
        found += [each["handle"] for each in messages]
    return found


@pytest.mark.requirement("R518")
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_program_sees_nothing_of_front_ends_that_are_replaced(tmp_path: Path, way: Way) -> None:
    conftest.needs_tools()
    with contextlib.ExitStack() as stack:
        bus = ReplacedBus(tmp_path, tls=way.tls)
        stack.callback(bus.end)
        bus.create_queues(["load", "later", "held"])
        driver = Driver(**({"SSL_CERT_FILE": bus.ca_file} if way.tls else {}))
        stack.callback(driver.end)
        client = {"connection": bus.connection_string, "webSockets": way.web_sockets}
        loops = DotnetLoops(driver, "load", "later", **client)
        held = hold(driver)
        loops.start()
        try:
            for _ in range(REPLACEMENTS):
                time.sleep(LOADED_S / (REPLACEMENTS + 1))
                bus.replace_front_end()
            time.sleep(LOADED_S / (REPLACEMENTS + 1))
        finally:
            loops.end()
        lost = loops.lost()
        for disposition, handle in zip(DISPOSITIONS, held, strict=True):
            driver.call(disposition, receiver="r-held", handle=handle)

    assert loops.errors == []
    assert lost == set()
    assert set(loops.done) == {"send", "receive", "schedule", "peek"}
