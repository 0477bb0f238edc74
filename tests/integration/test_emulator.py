"""`bendybus emulator` in the place of the official emulator's container, with Azure's SDK."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusSender,
    TransportType,
)
from azure.servicebus.management import FalseRuleFilter, ServiceBusAdministrationClient

from bendybus.cli.commands.emulator_command import READY_LINE
from tests.integration.amqp import take
from tests.integration.emulators import COMMAND, Emulator
from tests.ports import HOST

Run = Callable[..., Emulator]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    started: list[Emulator] = []

    def start(config: Any = None, **options: Any) -> Emulator:
        started.append(Emulator(tmp_path, config, **options))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def config(*queues: str, **more: Any) -> dict[str, Any]:
    namespace = {"Name": "sbemulatorns", "Queues": [{"Name": each} for each in queues], **more}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


def send(emulator: Emulator, queue: str, *bodies: str) -> None:
    with emulator.sdk() as client, client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage(each) for each in bodies])


def told_by(emulator: Emulator) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in emulator.lines if ": " in line)


def administration_of(emulator: Emulator) -> ServiceBusAdministrationClient:
    told = told_by(emulator)
    return ServiceBusAdministrationClient.from_connection_string(
        told["For administration clients"],
        connection_verify=told["CA certificate for administration clients"],
    )


def received(emulator: Emulator, queue: str, count: int = 1) -> list[str]:
    with emulator.sdk() as client, client.get_queue_receiver(queue) as receiver:
        messages = take(receiver, count)
        for message in messages:
            receiver.complete_message(message)
    return [str(message) for message in messages]


@pytest.mark.requirement("R504")
def test_a_container_that_answers_health_first_has_the_entities_of_its_config(run: Run) -> None:
    emulator = run(config(*(f"q{number}" for number in range(60)), "orders"))

    emulator.wait_healthy()
    send(emulator, "orders", "hello")

    assert emulator.health() == (200, {"status": "healthy", "message": "Service is healthy."})
    assert received(emulator, "orders") == ["hello"]


@pytest.mark.requirement("R502", "R504", "R505")
def test_the_output_has_the_report_the_variables_and_the_ready_line_last(run: Run) -> None:
    emulator = run(
        config("orders"), environment={"ACCEPT_EULA": "Y", "MSSQL_SA_PASSWORD": "geheim"}
    )

    emulator.wait_ready()

    assert emulator.lines[-1] == READY_LINE
    assert "ACCEPT_EULA has no effect: there is no agreement to accept" in emulator.output
    assert "3 fields: 2 taken, 0 changed, 0 not supported, 1 without effect" in emulator.output
    assert "It listens at 0.0.0.0: every client that can reach it has access" in emulator.output
    assert "Ready: bus 'sbemulatorns' (Premium) with 1 partition at 127.0.0.1:" in emulator.output
    assert f"Connection string: {emulator.connection_string}" in emulator.output
    assert "geheim" not in emulator.output


@pytest.mark.requirement("R506")
def test_messages_outlive_the_container_and_sigterm_ends_it_cleanly(run: Run) -> None:
    first = run(config("orders"))
    first.wait_ready()
    send(first, "orders", "kept")

    code = first.stop()
    second = run(config("orders"))
    second.wait_ready()

    assert (code, first.lines[-1]) == (0, READY_LINE)
    assert received(second, "orders") == ["kept"]


@pytest.mark.requirement("R502")
def test_a_changed_config_is_applied_and_what_is_absent_is_kept_and_named(run: Run) -> None:
    first = run(config("orders", "old"))
    first.wait_ready()
    send(first, "old", "still here")
    first.stop()
    changed = config("orders", "new")
    changed["UserConfig"]["Namespaces"][0]["Queues"][0]["Properties"] = {"MaxDeliveryCount": 1}

    second = run(changed)
    second.wait_ready()
    send(second, "orders", "twice")
    with second.sdk() as client, client.get_queue_receiver("orders") as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=20)
        receiver.abandon_message(message)
        with client.get_queue_receiver("orders", sub_queue="deadletter") as dead:
            [dead_letter] = dead.receive_messages(1, max_wait_time=20)
    send(second, "new", "hello")

    assert "queue 'old' is not declared any more; it is kept. Remove it with " in second.output
    assert str(dead_letter) == "twice"
    assert received(second, "old") == ["still here"]
    assert received(second, "new") == ["hello"]


@pytest.mark.requirement("R502")
def test_what_a_client_made_becomes_that_of_a_config_that_names_it(run: Run) -> None:
    first = run(config("orders"))
    first.wait_ready()
    with administration_of(first) as administration:
        administration.create_queue("own", max_delivery_count=5)
        administration.create_topic("t")
        administration.create_subscription("t", "s")
        administration.create_rule("t", "s", "none", filter=FalseRuleFilter())
    send(first, "own", "kept")
    first.stop()

    topics = [{"Name": "t", "Subscriptions": [{"Name": "s"}]}]
    second = run(config("orders", "own", Topics=topics))
    second.wait_ready()
    with administration_of(second) as administration:
        delivery_count = administration.get_queue("own").max_delivery_count
        rules = [each.name for each in administration.list_rules("t", "s")]
        with pytest.raises(HttpResponseError, match=r"changed only there: edit .* Config\.json"):
            administration.delete_queue("own")

    assert delivery_count == 10
    assert rules == ["$Default", "none"]
    assert received(second, "own") == ["kept"]


@pytest.mark.requirement("R502")
def test_rules_that_a_changed_config_drops_filter_no_more(run: Run) -> None:
    def topics(**rules: Any) -> list[Any]:
        return [{"Name": "t", "Subscriptions": [{"Name": "s", **rules}]}]

    none = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1 = 0"}}
    first = run(config(Topics=topics(Rules=[{"Name": "none", "Properties": none}])))
    first.wait_ready()
    first.stop()

    second = run(config(Topics=topics()))
    second.wait_ready()
    with second.sdk() as client:
        with client.get_topic_sender("t") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_subscription_receiver("t", "s") as receiver:
            [message] = take(receiver, 1)

    assert str(message) == "hello"
    assert (
        "subscription 't/Subscriptions/s' has no declared rules any more; it takes every message "
        "from now on." in second.output
    )


@pytest.mark.requirement("R504")
def test_the_string_for_administration_works_with_the_certificate_beside_it(run: Run) -> None:
    emulator = run(config("orders"))
    emulator.wait_ready()

    with administration_of(emulator) as administration:
        names = [each.name for each in administration.list_queues()]

    assert names == ["orders"]
    assert f":{emulator.http_port};" in told_by(emulator)["For administration clients"]


@pytest.mark.requirement("R575")
def test_the_namespace_says_when_its_folder_was_made(run: Run, tmp_path: Path) -> None:
    told = []
    for written in (True, False):
        began = datetime.now(UTC).replace(microsecond=0)
        emulator = run(config("orders"))
        emulator.wait_ready()
        with administration_of(emulator) as administration:
            found: Any = administration.get_namespace_properties()
        emulator.stop()
        told += [found.created_at_utc, found.modified_at_utc]
        if written:
            assert told[0] >= began
            # As 0.10 left it.
            [path] = tmp_path.rglob("namespace.json")
            content = json.loads(path.read_text(encoding="utf-8"))
            seen = path.stat().st_mtime
            del content["created_at"]
            path.write_text(json.dumps(content), encoding="utf-8")
            os.utime(path, (seen, seen))

    assert max(told) - min(told) <= timedelta(seconds=1)


@pytest.mark.requirement("R502")
def test_without_a_config_the_bus_is_empty_and_serves(run: Run) -> None:
    emulator = run()

    emulator.wait_ready()

    assert "There is no /ServiceBus_Emulator/ConfigFiles/Config.json: the bus begins " in (
        emulator.output
    )
    assert emulator.health()[0] == 200


@pytest.mark.requirement("R508")
def test_two_hundred_queues_and_a_hundred_connections_work(run: Run) -> None:
    names = [f"queue-{number}" for number in range(200)]
    emulator = run(config(*names))
    emulator.wait_ready()

    def opened(name: str) -> tuple[ServiceBusClient, ServiceBusSender]:
        client = emulator.sdk()
        sender = client.get_queue_sender(name)
        sender.send_messages(ServiceBusMessage(name))
        return client, sender

    def closed(connection: tuple[ServiceBusClient, ServiceBusSender]) -> None:
        client, sender = connection
        sender.close()
        client.close()

    # In threads, since the SDK sleeps for most of the time that opening and closing take.
    with ThreadPoolExecutor(20) as pool:
        connections = list(pool.map(opened, names[::2]))
        found = list(pool.map(lambda name: received(emulator, name), names[::20]))
        list(pool.map(closed, connections))

    assert len(connections) == 100
    assert found == [[name] for name in names[::20]]


@pytest.mark.requirement("R504")
def test_amqp_over_websockets_is_on_the_http_port(run: Run) -> None:
    emulator = run(config("orders"))
    emulator.wait_ready()

    with socket.create_connection((HOST, emulator.http_port), 10) as line:
        line.sendall(
            b"GET /$servicebus/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Protocol: AMQPWSB10\r\n\r\n"
        )
        answer = line.recv(4096)

    assert answer.startswith(b"HTTP/1.1 101 ")


@pytest.mark.requirement("R504")
def test_the_sdk_opens_websockets_at_the_http_port_that_it_is_told(run: Run) -> None:
    emulator = run(config("orders"))
    emulator.wait_ready()

    with (
        ServiceBusClient.from_connection_string(
            emulator.connection_string,
            transport_type=TransportType.AmqpOverWebsocket,
            custom_endpoint_address=f"sb://localhost:{emulator.http_port}",
        ) as client,
        client.get_queue_sender("orders") as sender,
    ):
        sender.send_messages(ServiceBusMessage("hello"))

    assert received(emulator, "orders") == ["hello"]


@pytest.mark.requirement("R501")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Config.json: is empty. Name a file with content."),
        ("[]", "Config.json: must be an object, { \u2026 } (got [])."),
        (
            json.dumps(config("a", "A")),
            "UserConfig.Namespaces[0].Queues[1].Name: 'A' is already the name of the queue in ",
        ),
    ],
)
def test_a_wrong_config_ends_the_start_with_its_reason(
    tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "Config.json").write_text(text, encoding="utf-8")
    options = ("--config", str(tmp_path / "Config.json"), "--data", str(tmp_path / "data"))

    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=60)

    assert done.returncode == 1
    assert said in done.stderr


@pytest.mark.requirement("R503")
def test_up_runs_a_premium_bus_without_a_manifest(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "bendybus.cli", "up", "--data", str(tmp_path))
    options = ("--premium", "2", "--queue", "orders", "--port", "0", "--amqp-port", "0")
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stdout is not None
        line = up.stdout.readline()
        up.terminate()
        up.communicate(timeout=60)

    assert line.startswith(
        "Ready: bus 'default' (Premium, implied: no BusNamespace was given) with 2 partitions at "
    )
