"""What topics and subscriptions of each status take and give."""

import pytest

from bendybus.domain import errors
from bendybus.domain.entity_settings import EntityStatus
from bendybus.partition_server.state.answers import AskRefused
from bendybus.partition_server.state.commands import Ask
from tests.partition_server import publishing
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import UPDATE, make_news, topic


@pytest.mark.requirement("R527")
def test_a_topic_that_takes_no_messages_still_gives_those_it_has(driver: Driver) -> None:
    make_news(driver)
    publishing.publish(driver, publishing.head(n=1))

    topic(driver, action=UPDATE, changes={"status": EntityStatus.SEND_DISABLED})

    with pytest.raises(errors.EntityDisabled, match="SendDisabled"):
        publishing.publish(driver, publishing.head(n=2))
    assert len(publishing.receive(driver, "a")) == 1
    topic(driver, action=UPDATE, changes={"status": EntityStatus.ACTIVE})
    publishing.publish(driver, publishing.head(n=3))


@pytest.mark.requirement("R527")
def test_a_subscription_that_gives_no_messages_still_takes_them(driver: Driver) -> None:
    make_news(driver)
    publishing.set_status(driver, "a", EntityStatus.RECEIVE_DISABLED)

    publishing.publish(driver, publishing.head(n=1))

    [refused] = driver.run(Ask("s", 1, publishing.ref(driver, "a"), False, 1, 1_000))
    assert isinstance(refused, AskRefused)
    assert isinstance(refused.error, errors.EntityDisabled)
    publishing.set_status(driver, "a", EntityStatus.ACTIVE)
    assert len(publishing.receive(driver, "a")) == 1


@pytest.mark.requirement("R527")
def test_other_statuses_are_refused(driver: Driver) -> None:
    make_news(driver)

    with pytest.raises(errors.InvalidArgument, match="Active or Disabled or SendDisabled"):
        topic(driver, action=UPDATE, changes={"status": EntityStatus.RECEIVE_DISABLED})
    with pytest.raises(errors.InvalidArgument, match="Active or Disabled or ReceiveDisabled"):
        publishing.set_status(driver, "a", EntityStatus.SEND_DISABLED)
