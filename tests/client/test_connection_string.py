"""Connection strings and the arguments of clients."""

import pytest

from bendybus.client import (
    ServiceBusClient,
    ServiceBusReceiver,
    ServiceBusSender,
    aio,
    connection_string,
    parse_connection_string,
)
from bendybus.client.core.retry_policy import RetryPolicy
from bendybus.domain import errors

GOOD = "Endpoint=sb://host:7480/;SharedAccessKeyName=n;SharedAccessKey=k=="


def test_a_string_is_taken_apart() -> None:
    found = parse_connection_string(f"{GOOD};EntityPath=q;UseDevelopmentEmulator=true;")

    assert found.fully_qualified_namespace == "host:7480"
    assert found.endpoint == "sb://host:7480/"
    assert found.entity_path == "q"
    assert (found.shared_access_key_name, found.shared_access_key) == ("n", "k==")
    assert connection_string.parse(f"{GOOD};UseDevelopmentEmulator=true").use_tls is False
    assert connection_string.parse(GOOD).use_tls is True


def test_the_port_has_a_default() -> None:
    assert connection_string.target_of("host") == "host:7480"
    assert connection_string.target_of("host:1") == "host:1"
    assert connection_string.target_of("[::1]") == "[::1]:7480"
    assert connection_string.host_of("sb://[::1]:5/", what="x") == "[::1]:5"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "blank"),
        ("nonsense", "nonsense"),
        ("Endpoint=sb://h;Colour=red", "Colour"),
        ("SharedAccessKeyName=n;SharedAccessKey=k", "Endpoint"),
        ("Endpoint=sb://;SharedAccessKeyName=n;SharedAccessKey=k", "host"),
        (
            "Endpoint=http://h:7480;SharedAccessKeyName=n;SharedAccessKey=k",
            "must be sb://HOST:PORT",
        ),
        ("Endpoint=sb://h:x;SharedAccessKeyName=n;SharedAccessKey=k", "port"),
        ("Endpoint=sb://h;SharedAccessKeyName=n", "SharedAccessKey"),
        ("Endpoint=sb://h;SharedAccessKey=k", "SharedAccessKeyName"),
        ("Endpoint=sb://h", "SharedAccessSignature"),
        (f"{GOOD};UseDevelopmentEmulator=maybe", "UseDevelopmentEmulator"),
        (f"{GOOD};Endpoint=sb://other", "twice"),
    ],
)
def test_a_bad_string_is_refused_by_its_part(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        ServiceBusClient.from_connection_string(text)


def test_the_key_is_never_in_the_sentence() -> None:
    with pytest.raises(ValueError, match="SharedAcces") as raised:
        parse_connection_string("Endpoint=sb://h;SharedAccesKey=secret")

    assert "secret" not in str(raised.value)


def test_an_entity_path_binds_the_client() -> None:
    client = ServiceBusClient.from_connection_string(f"{GOOD};EntityPath=q")

    client.get_queue_sender("q")

    with pytest.raises(ValueError, match="EntityPath"):
        client.get_queue_sender("other")


@pytest.mark.requirement("R376")
async def test_senders_and_receivers_are_made_from_a_connection_string_as_samples_do() -> None:
    with (
        ServiceBusSender._from_connection_string(GOOD, queue_name="q") as sender,
        ServiceBusReceiver._from_connection_string(f"{GOOD};EntityPath=other") as receiver,
    ):
        assert (sender.entity_name, receiver.entity_name) == ("q", "other")
    async with aio.ServiceBusSender._from_connection_string(GOOD, topic_name="t") as later:
        assert later.fully_qualified_namespace == "host:7480"


@pytest.mark.requirement("R376")
def test_a_closed_client_gives_senders_that_connect_again_as_the_original_does() -> None:
    client = ServiceBusClient("host", "key")
    with client:
        before = client.get_queue_sender("q")

    after = client.get_queue_sender("q")

    with pytest.raises(ValueError, match="is closed"), before:
        pass
    with after:
        assert after.entity_name == "q"


def test_the_retry_policy_counts_and_doubles() -> None:
    policy = RetryPolicy(total=2, backoff_factor_s=0.5, backoff_max_s=3)
    busy, lost = errors.ServerBusy("x", retry_after_ms=4_000), errors.MessageLockLost("x")

    assert [policy.pause_s(failures) for failures in (1, 2, 3, 4)] == [0.5, 1, 2, 3]
    assert policy.pause_s(1, busy) == 4
    assert [policy.allows(busy, failures) for failures in (1, 2, 3)] == [True, True, False]
    assert not policy.allows(lost, 1)
    with pytest.raises(ValueError, match="retry_mode"):
        RetryPolicy(mode="odd")
