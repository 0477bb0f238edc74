"""Files of other programs run as they are, carry messages, and go out again."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client.management import (
    AuthorizationRule,
    ServiceBusAdministrationClient,
    SqlRuleFilter,
)
from tests.crds.public_files import CORPUS

COMMAND = (sys.executable, "-m", "bendybus.cli")
TIMEOUT_S = 60

pytestmark = pytest.mark.requirement("R662")
Up = Callable[..., dict[str, Any]]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """Start a bus with these options; it ends with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str) -> dict[str, Any]:
        own = ("--data", str(tmp_path / "data"), "--port", "0", "--processes", "1", "-o", "json")
        process = subprocess.Popen(
            [*COMMAND, "up", *own, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        facts: dict[str, Any] = json.loads(process.stdout.readline())
        return facts

    yield start
    for each in started:
        each.terminate()
        each.communicate(timeout=TIMEOUT_S)


def run(facts: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the bus, and return what it said."""
    return subprocess.run(
        [*COMMAND, "--connection-string", facts["connection_string"], *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def carried(facts: dict[str, Any], to: str, *messages: ServiceBusMessage, by: str) -> list[str]:
    """Send messages, and return the texts of those that arrive at `by`: QUEUE, or TOPIC SUB."""
    names = by.split()
    with ServiceBusClient.from_connection_string(facts["connection_string"]) as client:
        with client.get_queue_sender(to) as sender:
            sender.send_messages(list(messages))
        receiver = (
            client.get_subscription_receiver(*names)
            if len(names) > 1
            else client.get_queue_receiver(*names)
        )
        with receiver:
            return [str(each) for each in receiver.receive_messages(5, max_wait_time=2)]


def settings_of(manifests: str) -> dict[str, Any]:
    """Return the settings of manifests by name, without policies, which a bus does not know."""
    found = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(manifests)}
    return {
        f"{name}.{setting}": value
        for name, spec in found.items()
        for setting, value in spec.items()
        if setting != "authorizationRules"
    }


def test_a_quickstart_runs(up: Up) -> None:
    values = ("bus=shop", "topic=news", "subscription=all", "rule=urgent")
    options = [part for each in values for part in ("--set", each)]

    facts = up("--config", str(CORPUS / "quickstart-create-rule.json"), *options)

    urgent = ServiceBusMessage("yes", application_properties={"Urgent": "true"})
    assert carried(facts, "news", ServiceBusMessage("no"), urgent, by="news all") == ["yes"]


def test_the_bus_of_an_aspire_app_runs(up: Up) -> None:
    facts = up("--config", str(CORPUS / "aspire-sbemulator.json"), "--set", "uniqueString=x7")

    exact = ServiceBusMessage(
        "yes", correlation_id="c", message_id="m", to="t", reply_to="r", subject="l",
        session_id="s", reply_to_session_id="rs", content_type="application/text",
    )  # fmt: skip
    assert carried(facts, "orders", ServiceBusMessage("yes"), by="orders") == ["yes"]
    assert carried(facts, "news", ServiceBusMessage("no"), exact, by="news all") == ["yes"]


def test_the_plan_of_a_terraform_module_runs_and_goes_out_in_every_form(
    up: Up, tmp_path: Path
) -> None:
    facts = up("--config", str(CORPUS / "terraform-module-plan.json"))
    assert carried(facts, "orders", ServiceBusMessage("yes"), by="orders") == ["yes"]

    first = run(facts, "convert")
    for form in ("arm", "aso", "terraform"):
        file = tmp_path / form
        values = ("--set", "location=here", "--set", "resourceGroup=rg") if form == "aso" else ()
        written = run(facts, "convert", "--as", form, "--to", str(file), *values)
        assert written.returncode == 0, written.stderr
        again = run(facts, "convert", str(file))
        assert settings_of(again.stdout).items() >= settings_of(first.stdout).items()


def test_entities_of_a_file_are_made_on_the_bus_that_runs(up: Up) -> None:
    facts = up()
    file = str(CORPUS / "aso-queue.yaml")

    tried = run(facts, "apply", "--from", file, "--dry-run")
    made = run(facts, "apply", "--from", file)
    twice = run(facts, "apply", "--from", file)

    assert tried.stdout.splitlines() == ["queue 'orders': created (dry run)"]
    assert made.stdout.splitlines() == ["queue 'orders': created"]
    assert twice.stdout.splitlines() == ["queue 'orders': unchanged"]
    assert "what is in shop-bus is made on bus default" not in made.stderr
    assert carried(facts, "orders", ServiceBusMessage("yes"), by="orders") == ["yes"]


def test_a_file_that_a_bus_cannot_have_changes_nothing(up: Up, tmp_path: Path) -> None:
    facts = up()
    file = str(CORPUS / "az-premium-queue.json")
    run(facts, "create", "queue", "orders")
    mine = tmp_path / "mine.yaml"
    mine.write_text((CORPUS / "aso-queue.yaml").read_text())

    premium = run(facts, "apply", "--from", file)
    taken = run(facts, "apply", "--from", str(mine))

    assert premium.returncode == 1
    assert "Premium" in premium.stderr.splitlines()[-1]
    assert taken.returncode == 1
    assert "was created by an administration call" in taken.stderr
    assert [each for each in run(facts, "get", "queues").stdout.split() if "big" in each] == []


def test_what_clients_made_is_written_without_keys_and_with_remarks(up: Up) -> None:
    facts = up()
    string = facts["connection_string"]
    policy = AuthorizationRule(rights=["Send"], key_name="app_send", primary_key="k" * 44)
    with ServiceBusAdministrationClient.from_connection_string(string) as administration:
        administration.create_queue("orders", authorization_rules=[policy])
        administration.create_topic("news")
        administration.create_subscription("news", "all")
        for name, value in (("typed", datetime(2026, 1, 1)), ("plain", 7)):
            administration.create_rule(
                "news", "all", name, filter=SqlRuleFilter("at = @p", {"@p": value})
            )

    said = run(facts, "convert")

    documents = {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(said.stdout)}
    assert documents["default"]["authorizationRules"] == [
        {"name": "app-send", "rights": ["Send"], "entity": "orders"}
    ]
    names = [each["name"] for each in documents["news-all"]["rules"]]
    assert names == ["$Default", "typed", "plain"]
    assert "k" * 44 not in said.stdout + said.stderr
    assert "changed: policy app_send of orders: the policy is called app-send" in said.stderr
    assert "rules typed: has a value that is no text, number, true or false" in said.stderr
