"""Which bus a command is about, and what a connection string means."""

from pathlib import Path

import pytest

from bendybus.cli import endpoint
from bendybus.cli.bus import bus_choice
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.endpoint import Endpoint
from bendybus.cli.errors import Unreachable, UsageError
from bendybus.cli.local import data_directory
from bendybus.domain import shared_access
from bendybus.domain.shared_access import Policy, Right


def test_what_is_said_wins_over_the_environment_and_that_over_what_runs(tmp_path: Path) -> None:
    environment = {bus_choice.VARIABLE: "from-environment", "XDG_DATA_HOME": str(tmp_path)}
    folder = tmp_path / "bendybus" / "default"

    with data_directory.held(folder):
        data_directory.write_run(folder, {"connection_string": "from-run", "data": str(folder)})
        said = bus_choice.connection_string(Choice("said", None, environment))
        from_environment = bus_choice.connection_string(Choice("", None, environment))
        del environment[bus_choice.VARIABLE]
        from_run = bus_choice.connection_string(Choice("", None, environment))

    assert (said, from_environment, from_run) == ("said", "from-environment", "from-run")


def test_a_bus_with_a_folder_of_its_own_is_named_by_it(tmp_path: Path) -> None:
    with data_directory.held(tmp_path / "mine"):
        data_directory.write_run(tmp_path / "mine", {"data": "mine"})

        with pytest.raises(Unreachable, match=r"No bus runs in .*/bendybus\. .* --data DIR"):
            bus_choice.local_bus(Choice("", None, {"XDG_DATA_HOME": str(tmp_path / "other")}))


def test_several_local_buses_must_be_told_apart(tmp_path: Path) -> None:
    root = tmp_path / "bendybus"

    with data_directory.held(root / "a"), data_directory.held(root / "b"):
        for name in "ab":
            data_directory.write_run(root / name, {"data": name})

        with pytest.raises(
            Unreachable, match=r"Several buses run on this machine: a, b. Choose one"
        ):
            bus_choice.local_bus(Choice("", None, {"XDG_DATA_HOME": str(tmp_path)}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (endpoint.EXAMPLE, Endpoint("127.0.0.1:7480", plain=True)),
        ("Endpoint=sb://bus.example/;EntityPath=q", Endpoint("bus.example:7480", False, "q")),
        ("Endpoint=sb://[::1]:99;UseDevelopmentEmulator=TRUE;", Endpoint("[::1]:99", True)),
        ("endpoint=localhost:1;SharedAccessKey=a=b==", Endpoint("localhost:1", False)),
    ],
)
def test_a_connection_string_names_an_address(text: str, expected: Endpoint) -> None:
    found = endpoint.parse(text)

    assert (found.address, found.plain, found.entity_path) == (
        expected.address,
        expected.plain,
        expected.entity_path,
    )


def test_a_key_becomes_a_token_and_never_text() -> None:
    found = endpoint.parse("Endpoint=sb://bus:1;SharedAccessKeyName=app;SharedAccessKey=a=b==")

    token = found.token(1_000.0)

    policies = shared_access.group([Policy("app", frozenset({Right.SEND}), keys=("a=b==",))])
    shared_access.verify(policies, token, "orders", Right.SEND, 1_000.0)
    assert "a=b" not in repr(found)
    with pytest.raises(UsageError) as refused:
        endpoint.parse("Endpoint=sb://bus:1;SharedAccessKey=abc;def")
    assert "def" not in str(refused.value)


def test_the_file_of_authorities_is_said_or_in_the_environment() -> None:
    environment = {bus_choice.CA_FILE_VARIABLE: "/from/env"}

    assert bus_choice.ca_file(Choice("", None, environment, Path("/said"))) == Path("/said")
    assert bus_choice.ca_file(Choice("", None, environment)) == Path("/from/env")
    assert bus_choice.ca_file(Choice("", None, {})) is None


@pytest.mark.parametrize("text", ["", "nonsense", "Endpoint=", "Endpoint=sb://:x"])
def test_a_connection_string_without_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"Connection string: .*sb://127"):
        endpoint.parse(text)
