"""Results as objects, whichever command has them."""

import json

import pytest
import yaml

from bendybus.cli import __main__ as command
from tests.cli.fake_management import FakeManagement

pytestmark = pytest.mark.requirement("R366")


@pytest.mark.parametrize("output", [("-o", "json"), ("--json",), ("-o", "yaml")])
def test_what_was_created_is_an_object_for_programs(
    bus: FakeManagement, capsys: pytest.CaptureFixture[str], output: tuple[str, ...]
) -> None:
    where = f"Endpoint=sb://{bus.address};UseDevelopmentEmulator=true"

    code = command.main(["--connection-string", where, "create", "queue", "orders", *output])

    said = capsys.readouterr().out
    found = yaml.safe_load(said) if "yaml" in output else json.loads(said)
    assert code == 0
    assert (found["kind"], found["name"], found["change"]) == ("Queue", "orders", "created")
