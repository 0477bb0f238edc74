"""A subscription that forwards to its own topic: hops bound it, and the fifth ends aside."""

import pytest

from bendybus.domain import limits
from tests.partition_server import publishing
from tests.partition_server.driver import Driver
from tests.partition_server.topic_changes import subscription, topic


@pytest.mark.requirement("R526")
def test_a_message_that_comes_back_to_its_topic_ends_as_a_dead_letter(driver: Driver) -> None:
    topic(driver)
    subscription(driver, "news/Subscriptions/again", changes={"forward_to": "news"})
    subscription(driver, "news/Subscriptions/b")

    publishing.publish(driver, publishing.head(n=1))
    for _ in range(10):
        driver.sweep()
        driver.advance(1_000)

    assert [row.hops for row in publishing.rows(driver, "b")] == [0, 1, 2, 3, 4]
    assert publishing.rows(driver, "again") == []
    [dead] = publishing.rows(driver, "again", dead_letter=True)
    assert dead.hops == limits.FORWARD_HOPS_MAX == 4
    assert dead.dead_letter_reason == "MaxTransferHopCountExceeded"
