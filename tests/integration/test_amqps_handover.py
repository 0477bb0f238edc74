"""How a connection over TLS ends when its front end stops."""

import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.raw_amqp import RawAmqp
from tests.integration.secured import SecuredBus
from tests.ports import HOST, free_port

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R518")]


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def secured_bus(tmp_path: Path, port: int) -> Iterator[SecuredBus]:
    listens = f"--amqps-listen={HOST}:{port}"
    made = SecuredBus(tmp_path, partitions=1, front_end_options=(listens,))
    yield made
    made.end()


def read_to_the_end(peer: RawAmqp) -> None:
    while not peer.ended:
        peer.read()


def test_it_is_lost_without_the_goodbye_of_tls_that_an_sdk_takes_no_notice_of(
    secured_bus: SecuredBus, port: int
) -> None:
    trusted = ssl.create_default_context(cafile=str(secured_bus.ca_file))
    with RawAmqp(f"{HOST}:{port}") as peer:
        peer.socket = trusted.wrap_socket(
            peer.socket, server_hostname=HOST, suppress_ragged_eofs=False
        )
        peer.open()
        secured_bus.bus.front_end.signal(signal.SIGTERM)

        with pytest.raises(ssl.SSLEOFError):
            read_to_the_end(peer)
