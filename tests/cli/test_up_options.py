"""`bendybus up`: what its options ask for, and which of them contradict each other."""

import os
import tempfile
from pathlib import Path

import pytest

from bendybus.cli import __main__ as command
from bendybus.cli.commands import emulator_command
from bendybus.cli.errors import UsageError
from tests.cli.test_front_ends import three_free
from tests.cli.test_up import FLIGHTS, Start, asked, data, ready, start
from tests.crds.emulator_documents import EXAMPLE

__all__ = ["data", "start"]
Capture = pytest.CaptureFixture[str]
# No bus can have as many: what should be refused earlier is at least refused then.
NEVER_RUNS = ("--processes", "99")


@pytest.mark.requirement("R503")
@pytest.mark.parametrize("before", [(), ("--config", str(EXAMPLE))])
@pytest.mark.parametrize("number", ["0", "3", "32"])
def test_a_premium_bus_has_a_number_of_partitions_that_azure_has(
    capsys: Capture, before: tuple[str, ...], number: str
) -> None:
    code = command.main(["up", *before, "--premium", number, *NEVER_RUNS])

    assert code == 2
    said = capsys.readouterr().err
    assert said == f"bendybus: --premium: must be one of 1, 2, 4, 8, 16 (got {number}).\n"


@pytest.mark.requirement("R503")
def test_a_manifest_of_the_bus_decides_its_partitions_alone(capsys: Capture) -> None:
    code = command.main(["up", "-f", str(FLIGHTS), "--premium", "4", *NEVER_RUNS])

    assert code == 2
    assert capsys.readouterr().err == (
        "bendybus: --premium: the manifest of BusNamespace 'flights' says how many partitions it "
        "has. Leave --premium out.\n"
    )


@pytest.mark.requirement("R502")
@pytest.mark.parametrize(("option", "value"), [("--file", str(FLIGHTS)), ("--queue", "orders")])
def test_a_config_is_the_whole_bus(capsys: Capture, option: str, value: str) -> None:
    code = command.main(["up", "--config", str(EXAMPLE), option, value, *NEVER_RUNS])

    assert code == 2
    assert capsys.readouterr().err == (
        f"bendybus: --config: cannot be combined with {option}. bendybus convert makes manifests "
        "of it, to which you can add others.\n"
    )


@pytest.mark.requirement("R504")
@pytest.mark.parametrize("host", ["", "localhost", "0.0.0.0:1"])
def test_a_host_is_an_ip_address(capsys: Capture, tmp_path: Path, host: str) -> None:
    code = command.main(["up", "--data", str(tmp_path), "--host", host])

    assert code == 2
    assert capsys.readouterr().err == (
        f"bendybus: --host: {host!r} is not an IP address. Give one of this machine, or 0.0.0.0 "
        "for all of them.\n"
    )


@pytest.mark.requirement("R504")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--http-port", "70000"), "--http-port: 70000 is outside 0 to 65535."),
        (
            ("--host", "192.0.2.1", "--port", "17480"),
            "Port 17480 cannot be used: --host is not an address of this machine. Choose another "
            "with --port (0: any free one).",
        ),
    ],
)
def test_an_address_that_no_server_can_listen_at_is_refused(
    capsys: Capture, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    command.main(["up", "--data", str(tmp_path), "--port", "0", *options])

    assert capsys.readouterr().err == f"bendybus: {said}\n"


@pytest.mark.requirement("R504")
@pytest.mark.parametrize("other", ["--port", "--amqp-port"])
def test_http_needs_a_port_of_its_own(capsys: Capture, tmp_path: Path, other: str) -> None:
    first = three_free()
    ports = ("--port", "0", other, str(first), "--http-port", str(first))

    code = command.main(["up", "--data", str(tmp_path), *ports])

    assert code == 2
    assert capsys.readouterr().err == (
        f"bendybus: --http-port: port {first} is needed for {other}. Choose another (0: any free "
        "one).\n"
    )


@pytest.mark.integration
@pytest.mark.requirement("R504")
def test_front_ends_listen_at_the_host_and_http_port_that_are_asked_for(
    start: Start, data: Path
) -> None:
    first = three_free()

    facts = ready(start(flags=("--json", "--host", "0.0.0.0", "--http-port", str(first))))

    assert asked(data, "http") == [f"0.0.0.0:{first}"]
    assert asked(data, "amqp")[0].startswith("0.0.0.0:")
    assert asked(data, "partition-server")[0].startswith("127.0.0.1:")
    assert facts["http_endpoints"] == [f"127.0.0.1:{first}"]
    assert facts["endpoint"].startswith("127.0.0.1:")


@pytest.mark.integration
@pytest.mark.requirement("R504")
def test_ports_of_the_emulator_open_only_once_the_entities_are_there(
    start: Start, data: Path
) -> None:
    first = three_free()
    ports = ("--amqp-port", str(first), "--http-port", str(first + 1))

    facts = ready(start(port=first + 2, flags=("--json", "--late", *ports)))

    hidden, public = asked(data, "frontend")
    assert hidden != public == f"127.0.0.1:{first + 2}" == facts["endpoint"]
    # The first front end, which the entities are created through, has neither.
    assert asked(data, "amqp") == facts["amqp_endpoints"] == [f"127.0.0.1:{first}"]
    assert asked(data, "http") == facts["http_endpoints"] == [f"127.0.0.1:{first + 1}"]


@pytest.mark.requirement("R505")
def test_the_http_port_of_the_emulator_comes_from_its_variable() -> None:
    found = [emulator_command.http_port_of(each) for each in ({}, {"EMULATOR_HTTP_PORT": "5301"})]

    assert found == [5300, 5301]


@pytest.mark.requirement("R505")
@pytest.mark.parametrize("text", ["http", "-1", "65536", "\u0665", "9" * 5_000])
def test_an_http_port_that_is_no_port_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        emulator_command.http_port_of({"EMULATOR_HTTP_PORT": text})

    assert str(caught.value) == f"EMULATOR_HTTP_PORT: must be a port (got {text!r})."


@pytest.mark.requirement("R506")
def test_a_folder_that_is_not_writable_is_replaced_by_one_that_ends_with_the_container(
    capsys: Capture,
) -> None:
    folder = emulator_command._data({"XDG_DATA_HOME": "/dev/null"}, "sbemulatorns")

    assert folder == Path(tempfile.gettempdir()) / "bendybus" / "sbemulatorns"
    assert capsys.readouterr().err == (
        f"/dev/null/bendybus is not writable: data is in {folder}, which ends with the container. "
        f"To keep messages, mount a volume at /dev/null/bendybus that user {os.getuid()} can "
        "write.\n"
    )


@pytest.mark.requirement("R505")
def test_variables_without_effect_are_named_and_never_their_values() -> None:
    given = {"ACCEPT_EULA": "Y", "MSSQL_SA_PASSWORD": "secret", "SQL_SERVER": "db", "HOME": "/"}

    said = list(emulator_command.ignored(given))

    assert [each.split()[0] for each in said] == ["ACCEPT_EULA", "SQL_SERVER", "MSSQL_SA_PASSWORD"]
    assert "secret" not in "".join(said)


@pytest.mark.requirement("R504")
@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1:5672", "localhost"),
        ("127.0.0.1:5673", "localhost:5673"),
        ("[::1]:5672", "[::1]"),
    ],
)
def test_the_connection_string_is_that_of_the_emulator(address: str, place: str) -> None:
    found = emulator_command.connection_string(address)

    assert found == (
        f"Endpoint=sb://{place};SharedAccessKeyName=RootManageSharedAccessKey;"
        "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
    )
