"""A program on Qpid JMS: the names of JMS, the key of a policy (SASL PLAIN), and AMQP 1.0 only."""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bendybus.client.management import ServiceBusAdministrationClient
from tests.integration.processes import eventually
from tests.integration.secured import ROOT_KEY, ROOT_POLICY, SecuredBus
from tests.ports import HOST, free_port
from tools import jars

FOLDER: Final = Path(__file__).parent / "jms"
TRUST: Final = Path(__file__).parents[1] / "sdks/java/Trust.java"
BUILD_S: Final = 400.0
ENDS_S: Final = 120.0
# What is left: in the queue, the other queue, and the subscription.
LEFT: Final = {
    "acknowledges": (0, 0, 0),
    "sendsInTransactions": (0, 0, 0),
    "receivesInTransactions": (0, 0, 0),
    "moves": (0, 3, 0),
    "listens": (0, 0, 0),
    "publishes": (0, 0, 0),
    "cannotSelect": (1, 0, 0),
    "cannotBrowse": (1, 0, 0),
}


class JmsBus(SecuredBus):
    """A bus with TLS whose AMQP listens where it can."""

    def __init__(self, folder: Path) -> None:
        self.amqp_address = f"{HOST}:{free_port()}"
        super().__init__(
            folder,
            # JMS has no partition keys, which transactions of partitioned queues need.
            partitions=1,
            front_end_options=(f"--amqps-listen={self.amqp_address}",),
        )


@functools.cache
def built() -> None:
    missing = [each for each in ("java", "javac", "mvn") if shutil.which(each) is None]
    assert not missing, f"{', '.join(missing)} not installed, see CONTRIBUTING.md"
    done = run(["javac", "-d", "target", "Jms.java", str(TRUST)], BUILD_S)
    assert done.returncode == 0, done.stderr[-2_000:]


def run(command: list[str], most_s: float, **variables: str) -> subprocess.CompletedProcess[str]:
    class_path = f"target:{jars.classpath(FOLDER / 'jms.jars')}"
    return subprocess.run(
        command,
        cwd=FOLDER,
        env={**os.environ, "CLASSPATH": class_path, **variables},
        capture_output=True,
        text=True,
        timeout=most_s,
        check=False,
    )


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JmsBus]:
    made = JmsBus(tmp_path_factory.mktemp("jms"))
    yield made
    made.end()


@pytest.fixture
def administration(bus: JmsBus) -> Iterator[ServiceBusAdministrationClient]:
    with bus.administration() as made:
        for name in ("queue", "other"):
            made.create_queue(name)
        made.create_topic("topic")
        made.create_subscription("topic", "all")
        yield made
        for name in ("queue", "other"):
            made.delete_queue(name)
        made.delete_topic("topic")


@pytest.mark.requirement("R514")
@pytest.mark.parametrize("what", LEFT)
def test_a_program(bus: JmsBus, administration: ServiceBusAdministrationClient, what: str) -> None:
    built()
    url = f"amqps://{bus.amqp_address}"

    done = run(
        ["java", "-Xmx128m", "Jms", url, ROOT_POLICY, ROOT_KEY, what],
        ENDS_S,
        SSL_CERT_FILE=str(bus.ca_file),
    )

    def left() -> tuple[int, int, int]:
        queues = (administration.get_queue_runtime_properties(each) for each in ("queue", "other"))
        topic = administration.get_subscription_runtime_properties("topic", "all")
        first, second = (each.total_message_count for each in queues)
        return first, second, topic.total_message_count

    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    eventually(lambda: left() == LEFT[what], within_s=10, what=f"{what}: {left()}")
