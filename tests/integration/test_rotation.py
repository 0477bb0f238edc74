"""Certificates, authorities and keys that are rotated without a restart."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from bendybus.client import ServiceBusClient
from bendybus.client.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
)
from tests.certificates import BUS, Authority
from tests.integration.processes import eventually
from tests.integration.secured import (
    ROOT_KEY,
    ROOT_KEY_2,
    ROOT_POLICY,
    SecuredBus,
    policy,
)
from tests.integration.traffic import Traffic, receive_one, send_one


def renewed(log: Path, times: int) -> bool:
    """Whether channels to partitions were recreated so often."""
    return log.read_text().count("new channels") == times


def reloads(bus: SecuredBus, log: str) -> int:
    """Return how often a process took new certificates."""
    return (bus.bus.folder / log).read_text().count("tls: new certificates are in use")


@pytest.mark.slow
def test_certificates_and_their_authority_are_exchanged_under_traffic(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    old, new = secured.authority, Authority("new authority")
    log = secured.bus.folder / "front-end.log"
    with secured.client() as client, Traffic(client, keyed=True) as traffic:
        traffic.goes_on()
        # The bundle first trusts both, then certificates change, then the old one goes.
        steps = [(old, old.pem + new.pem), (new, old.pem + new.pem), (new, new.pem)]
        for count, (secured.authority, secured.bundle) in enumerate(steps, 1):
            secured.issue("partition")
            secured.issue("frontend")
            eventually(functools.partial(renewed, log, 2 * count), what="new channels")
            traffic.goes_on()
    traffic.check()

    text = log.read_text()
    assert text.count("new channels") == 6
    assert "not connected yet" not in text
    assert "circuit breaker opened" not in text
    # Those who trust only the new authority are served, without a restart.
    secured.trust(new.pem)
    with secured.client() as client:
        send_one(client)
        assert receive_one(client) == 1
    secured.trust(old.pem)
    with secured.client(retry_total=0) as client, pytest.raises(ServiceBusConnectionError):
        send_one(client)
    assert reloads(secured, "front-end.log") == 3


def test_a_client_reads_its_authorities_again_when_they_were_exchanged(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured(partitions=1)
    with secured.client() as client:
        send_one(client)
        secured.authority = Authority("new authority")
        secured.bundle = secured.authority.pem
        secured.issue("partition")
        secured.issue("frontend")
        secured.bus.front_end.terminate()
        secured.bus.start_front_end()
        secured.trust(secured.bundle)

        send_one(client)
        assert receive_one(client) == 1


def test_half_written_certificates_are_not_taken(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"
    certificate, key = secured.authority.issue(f"{BUS}/frontend")
    target = (secured.frontend_tls / "..data").resolve()

    (target / "tls.crt").write_bytes(certificate)
    eventually(
        lambda: "must be a PEM certificate and its unencrypted private key" in log.read_text(),
        what="the refusal",
    )
    with secured.client() as client:
        send_one(client)
        (target / "tls.key").write_bytes(key)
        eventually(lambda: reloads(secured, "front-end.log") == 1, what="the new pair")
        assert receive_one(client) == 1
    with secured.client() as client:
        send_one(client)


def refused(client: ServiceBusClient, why: str) -> bool:
    """Whether a send is refused for that reason; any other error fails the test."""
    try:
        send_one(client)
    except ServiceBusAuthenticationError as error:
        assert why in str(error)  # noqa: PT017
        return True
    return False


@pytest.mark.slow
def test_keys_are_exchanged_without_a_restart(make_secured: Callable[..., SecuredBus]) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"
    with secured.client(ROOT_KEY) as first, secured.client(ROOT_KEY_2) as second:
        send_one(first)
        with Traffic(second) as traffic:
            traffic.goes_on()
            secured.grant(
                [policy(ROOT_POLICY, ["Manage", "Send", "Listen"], ["new-primary", ROOT_KEY_2])]
            )
            eventually(lambda: "policies-reloaded" in log.read_text(), what="the new policies")
            # The old secondary works on; the removed key is refused, on open streams too: those are
            # asked to end, and take what was written before that arrives.
            eventually(lambda: refused(first, "not signed with a key"), what="the refusal")
            traffic.goes_on()
        assert traffic.errors == []
    with secured.client("new-primary") as client:
        send_one(client)


def test_a_bad_file_of_policies_leaves_the_good_one_in_use(
    make_secured: Callable[..., SecuredBus],
) -> None:
    secured = make_secured()
    log = secured.bus.folder / "front-end.log"

    (secured.policies / "..data" / "policies.json").write_text('{"policies": [{"keys": ["abc"')
    eventually(lambda: "policies-refused" in log.read_text(), what="the refusal")

    with secured.client() as client:
        send_one(client)
    assert "abc" not in log.read_text()
