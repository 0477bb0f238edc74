"""Policies on one entity that its managers set through administration, with azure-servicebus."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient as AzureClient
from azure.servicebus import ServiceBusMessage as AzureMessage
from azure.servicebus.exceptions import ServiceBusError as AzureError
from azure.servicebus.management import AuthorizationRule

from bendybus.client import ServiceBusClient, ServiceBusMessage
from bendybus.client import management as native
from bendybus.client.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusError,
)
from bendybus.domain import shared_access
from bendybus.domain.limits import Tier
from tests.integration.processes import eventually
from tests.integration.secured import POLICIES, policy
from tests.integration.web import WebBus

pytestmark = [pytest.mark.integration, pytest.mark.requirement("R578")]
KEY, OTHER_KEY = "a" * 43 + "=", "b" * 43 + "="


def rule(name: str = "app", rights: tuple[str, ...] = ("Send",), *keys: str) -> AuthorizationRule:
    """Return a rule as programs of azure-servicebus make it."""
    primary, secondary = (*keys, None, None)[:2]
    return AuthorizationRule(
        type="SharedAccessAuthorizationRule",
        claim_type="SharedAccessKey",
        claim_value="None",
        rights=list(rights),
        key_name=name,
        primary_key=primary,
        secondary_key=secondary,
    )


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBus]:
    policies = (*POLICIES, policy("on-billing", ["Send", "Listen"], ["billing-key"], "billing"))
    made = WebBus(tmp_path_factory.mktemp("bus"), policies, tier=Tier.PREMIUM)
    yield made
    made.end()


def of_entity(bus: WebBus, entity: str, key: str, name: str = "app", address: str = "") -> str:
    """Return the connection string of a policy on an entity."""
    return f"{bus.connection_string(key, name, address=address)};EntityPath={entity}"


def native_client(bus: WebBus, entity: str, key: str, name: str = "app") -> ServiceBusClient:
    """Return a client of Bendybus with the key of a policy on an entity."""
    string = of_entity(bus, entity, key, name, bus.secured.bus.front_end_address)
    return ServiceBusClient.from_connection_string(
        string, connection_verify=bus.ca_file, retry_total=0
    )


def send(bus: WebBus, entity: str, key: str, name: str = "app") -> None:
    """Send a message with the key of a policy on an entity."""
    with native_client(bus, entity, key, name) as client, client.get_queue_sender(entity) as sender:
        sender.send_messages(ServiceBusMessage("hello"))


def test_rules_come_back_as_they_were_given_and_keys_that_lack_are_made(bus: WebBus) -> None:
    with bus.azure() as azure:
        made = azure.create_queue(
            "shown",
            enable_express=True,
            authorization_rules=[
                rule("all", ("Manage", "Send", "Listen"), KEY, OTHER_KEY),
                rule("reader", ("Listen",)),
            ],
        )
        found = azure.get_queue("shown")

    for queue in (made, found):
        assert queue.enable_express is True
        assert queue.authorization_rules is not None
        everything, reader = queue.authorization_rules
        assert (everything.key_name, everything.primary_key) == ("all", KEY)
        assert everything.secondary_key == OTHER_KEY
        assert set(everything.rights or ()) == {"Manage", "Send", "Listen"}
        assert (reader.key_name, reader.rights) == ("reader", ["Listen"])
        assert len(str(reader.primary_key)) == len(str(reader.secondary_key)) == 44
        assert reader.primary_key != reader.secondary_key
        # As the service, which has no times of rules.
        assert everything.created_at_utc is None
    first, again = (list(each.authorization_rules or ())[1] for each in (made, found))
    assert (first.primary_key, first.secondary_key) == (again.primary_key, again.secondary_key)


def test_a_key_of_a_rule_does_what_its_rights_say_there_and_nowhere_else(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("guarded", authorization_rules=[rule("app", ("Send",), KEY, OTHER_KEY)])
        azure.create_queue("guarded/other")

    for key in (KEY, OTHER_KEY):
        send(bus, "guarded", key)
    with (
        native_client(bus, "guarded", KEY) as client,
        pytest.raises(ServiceBusAuthorizationError, match="'app' does not grant Listen"),
    ):
        client.get_queue_receiver("guarded").receive_messages(max_wait_time=1)
    with pytest.raises(ServiceBusAuthenticationError, match="not signed with a key of policy"):
        send(bus, "guarded", "c" * 44)
    with pytest.raises(ServiceBusAuthorizationError, match="guarded/other"):
        send(bus, "guarded/other", KEY)
    with pytest.raises(ServiceBusAuthenticationError, match="does not exist"):
        send(bus, "billing-2", KEY)


def test_a_program_on_the_sdk_sends_over_amqp_with_a_key_of_its_queue(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("amqp", authorization_rules=[rule("app", ("Send", "Listen"), KEY)])

    string = f"{of_entity(bus, 'amqp', KEY, address=bus.shared)};UseDevelopmentEmulator=true"
    with AzureClient.from_connection_string(string) as client:
        with client.get_queue_sender("amqp") as sender:
            sender.send_messages(AzureMessage("one"))
        with client.get_queue_receiver("amqp", max_wait_time=10) as receiver:
            [message] = receiver.receive_messages()
            receiver.complete_message(message)
    wrong = f"{of_entity(bus, 'amqp', OTHER_KEY, address=bus.shared)};UseDevelopmentEmulator=true"
    with (
        AzureClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(AzureError),
        client.get_queue_sender("amqp") as sender,
    ):
        sender.send_messages(AzureMessage("two"))


def test_rules_of_a_topic_are_for_its_subscriptions(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_topic("news", authorization_rules=[rule("app", ("Send", "Listen"), KEY)])
        azure.create_subscription("news", "all")
        found = azure.get_topic("news").authorization_rules or []
        assert [each.key_name for each in found] == ["app"]

    string = of_entity(bus, "news", KEY, address=bus.secured.bus.front_end_address)
    with ServiceBusClient.from_connection_string(string, connection_verify=bus.ca_file) as client:
        with client.get_topic_sender("news") as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_subscription_receiver("news", "all", max_wait_time=10) as receiver:
            [message] = receiver.receive_messages()
            receiver.complete_message(message)


def test_a_manager_of_one_queue_reads_it_over_http_with_a_token_for_its_url(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue(
            "managed", authorization_rules=[rule("app", ("Manage", "Send", "Listen"), KEY)]
        )
    tokens = {
        path: shared_access.sign(f"https://{bus.https}{path}", "app", KEY, shared_access.NEVER_S)
        for path in ("/managed", "/billing", "")
    }

    assert bus.ask("GET", "/managed", token=tokens["/managed"]).status == 200
    assert bus.ask("GET", "/billing", token=tokens["/managed"]).status == 401
    # As in Service Bus: such a key signs for what it is of.
    for other in ("/billing", ""):
        assert bus.ask("GET", "/managed", token=tokens[other]).status == 401


def test_a_rotated_or_removed_key_ends_what_it_opened(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("rotated", authorization_rules=[rule("app", ("Send",), KEY, KEY)])
        with native_client(bus, "rotated", KEY) as client:
            sender = client.get_queue_sender("rotated")
            sender.send_messages(ServiceBusMessage("before"))
            queue = azure.get_queue("rotated")
            assert queue.authorization_rules is not None
            queue.authorization_rules[0].primary_key = OTHER_KEY
            queue.authorization_rules[0].secondary_key = OTHER_KEY
            azure.update_queue(queue)

            def refused() -> bool:
                try:
                    sender.send_messages(ServiceBusMessage("after"))
                except ServiceBusError:
                    return True
                return False

            eventually(refused)
        send(bus, "rotated", OTHER_KEY)

        queue = azure.get_queue("rotated")
        azure.update_queue(queue, authorization_rules=[])
        assert not azure.get_queue("rotated").authorization_rules
        azure.delete_queue("rotated")


def test_rights_that_are_taken_from_a_rule_are_gone_from_what_is_open(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue(
            "narrowed", authorization_rules=[rule("app", ("Send", "Listen"), KEY, KEY)]
        )
        with native_client(bus, "narrowed", KEY) as client:
            sender = client.get_queue_sender("narrowed")
            sender.send_messages(ServiceBusMessage("before"))
            azure.update_queue(
                azure.get_queue("narrowed"), authorization_rules=[rule("app", ("Listen",))]
            )

            def refused() -> bool:
                try:
                    sender.send_messages(ServiceBusMessage("after"))
                except ServiceBusAuthorizationError:
                    return True
                return False

            eventually(refused)


def test_a_rule_with_the_name_of_a_declared_policy_is_another_one(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("orders", authorization_rules=[rule("orders-only", ("Listen",), KEY)])
        queue = azure.get_queue("orders")
        assert queue.authorization_rules is not None
        assert [each.primary_key for each in queue.authorization_rules] == [None, KEY]
        queue.max_delivery_count = 3
        azure.update_queue(queue)

        again = azure.get_queue("orders")

    assert again.max_delivery_count == 3
    assert [each.primary_key for each in again.authorization_rules or ()] == [None, KEY]


def test_lists_of_the_clients_of_bendybus_leave_the_keys_out(bus: WebBus) -> None:
    with bus.secured.administration() as administration:
        administration.create_queue(
            "listed",
            authorization_rules=[native.AuthorizationRule(rights=["Send"], key_name="app")],
        )
        [listed] = [each for each in administration.list_queues() if each.name == "listed"]
        assert listed.authorization_rules is None
        listed.max_delivery_count = 3
        administration.update_queue(listed)

        found = administration.get_queue("listed")

    assert found.max_delivery_count == 3
    assert [each.key_name for each in found.authorization_rules or ()] == ["app"]


def test_an_update_without_the_list_and_without_keys_changes_neither(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("kept", authorization_rules=[rule("app", ("Send",), KEY, OTHER_KEY)])
        queue = azure.get_queue("kept")
        queue.authorization_rules = None
        queue.max_delivery_count = 7
        azure.update_queue(queue)
        azure.update_queue(azure.get_queue("kept"), authorization_rules=[rule("app", ("Listen",))])

        found = azure.get_queue("kept")

    assert found.max_delivery_count == 7
    assert found.authorization_rules is not None
    [kept] = found.authorization_rules
    assert (kept.primary_key, kept.secondary_key, kept.rights) == (KEY, OTHER_KEY, ["Listen"])


def test_rules_survive_the_restart_of_all_servers(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("lasting", authorization_rules=[rule("app", ("Send",), KEY)])
    processes = bus.secured.bus
    processes.front_end.end()
    for index in processes.partitions:
        processes.partitions[index].kill()
        processes.start_partition(index)

    processes.start_front_end()

    eventually(lambda: _sends(bus, "lasting"))


def _sends(bus: WebBus, queue: str) -> bool:
    with suppress(ServiceBusError):
        send(bus, queue, KEY)
        return True
    return False


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([rule(rights=("Manage",))], "Manage must come with Send and Listen"),
        ([rule(rights=())], "grants no right"),
        ([rule(rights=("Fly",))], "must be one of Manage, Send, Listen"),
        ([rule(name="a" * 257)], "1 to 256 characters"),
        ([rule(), rule("APP")], "'APP' is there twice"),
        ([rule("app", ("Send",), "k" * 257)], "is longer than 256 characters"),
        ([rule("my app")], "a key name must have letters, digits and"),
        ([rule("app", ("Send",), f"{'k' * 20};")], "a key of 'app' must have letters, digits"),
        ([rule(f"n{number}") for number in range(13)], "must be 0 to 12"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_a_sentence(
    bus: WebBus, rules: list[AuthorizationRule], sentence: str
) -> None:
    with bus.azure() as azure:
        with pytest.raises(HttpResponseError, match=sentence) as refused:
            azure.create_queue("refused", authorization_rules=rules)
        with pytest.raises(ResourceNotFoundError):
            azure.get_queue("refused")

    assert "k" * 20 not in str(refused.value)


def test_policies_of_the_namespace_are_shown_and_changed_by_nobody_here(bus: WebBus) -> None:
    with bus.azure() as azure:
        azure.create_queue("billing", authorization_rules=[rule("mine", ("Send",), KEY)])
        queue = azure.get_queue("billing")
        assert queue.authorization_rules is not None
        declared, mine = queue.authorization_rules
        assert (declared.key_name, declared.primary_key) == ("on-billing", None)
        assert (mine.key_name, mine.primary_key) == ("mine", KEY)
        queue.max_delivery_count = 3
        azure.update_queue(queue)

        for changed in ([], [mine], [rule("on-billing", ("Send",)), mine]):
            with pytest.raises(HttpResponseError, match="on-billing: clients cannot change"):
                azure.update_queue(queue, authorization_rules=changed)

    send(bus, "billing", KEY, "mine")
    send(bus, "billing", "billing-key", "on-billing")


def test_the_clients_of_bendybus_set_rules_and_see_them(bus: WebBus) -> None:
    with bus.secured.administration() as administration:
        made = administration.create_queue(
            "native",
            enable_express=True,
            authorization_rules=[
                native.AuthorizationRule(rights=["Send"], key_name="app", primary_key=KEY)
            ],
        )
        assert made.enable_express is True
        assert made.authorization_rules is not None
        [shown] = made.authorization_rules
        assert (shown.key_name, shown.primary_key, shown.rights) == ("app", KEY, ["Send"])
        assert len(str(shown.secondary_key)) == 44
        send(bus, "native", KEY)
        administration.update_queue(made, authorization_rules=[])

        assert administration.get_queue("native").authorization_rules == []
