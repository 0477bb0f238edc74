"""What `receive` and `deadletter resubmit` do with sessions, sub-queues, subscriptions, delays."""

from unittest.mock import Mock

import pytest

from bendybus.cli.bus import messages, resubmit
from bendybus.cli.bus.messages import Receive
from bendybus.cli.bus.resubmit import Resubmit
from bendybus.client import AutoLockRenewer
from tests.cli.test_messages import FakeClient, Shown, received


def test_following_a_session_renews_its_lock() -> None:
    client = FakeClient()
    client.receive_messages = Mock(side_effect=[[], KeyboardInterrupt])  # type: ignore[method-assign]

    with pytest.raises(KeyboardInterrupt):
        messages.receive(
            client,  # type: ignore[arg-type]
            "q",
            Receive(2, 0.1, follow=True, session="s"),
            Shown(client),
        )

    assert isinstance(client.options["auto_lock_renewer"], AutoLockRenewer)


@pytest.mark.parametrize("name", ["deadletter", "transferdeadletter"])
def test_messages_are_received_from_the_sub_queue_that_is_named(name: str) -> None:
    client = FakeClient(received(1))

    messages.receive(client, "q", Receive(1, 0.1, sub_queue=name), Shown(client))  # type: ignore[arg-type]

    assert client.options["sub_queue"] == name


def test_dead_letters_of_a_subscription_are_sent_to_its_topic_again() -> None:
    client, name = FakeClient(received(1, reason="x")), "news/subscriptions/a"

    done = resubmit.resubmit(
        client,  # type: ignore[arg-type]
        name,
        Resubmit(10, 0.1, resubmit.destination(name, "", undelivered=False), detects=False),
        lambda count: None,
    )

    assert (done.resubmitted, client.destination) == (1, "news")


def test_messages_are_abandoned_for_a_time_after_they_were_shown() -> None:
    client = FakeClient(received(1), received(2))
    shown = Shown(client)
    client.abandon_message = lambda message, delay: client.done.append(  # type: ignore[attr-defined]
        (f"abandon {delay}", message.sequence_number)
    )

    messages.receive(client, "q", Receive(2, 0.1, abandon_ms=300_000), shown)  # type: ignore[arg-type]

    assert client.done == [("abandon 300.0", 1), ("abandon 300.0", 2)]
    assert shown.done_before == []
