"""Sizes of what came in another protocol: compared with the limits before it was converted."""

import pytest

from bendybus.domain import errors, limits
from bendybus.partition_server.state.batch import Batch
from bendybus.partition_server.state.commands import Append
from tests.partition_server.driver import Driver

pytestmark = pytest.mark.requirement("R566")
LARGEST = limits.PREMIUM_MESSAGE_BYTES_DEFAULT


@pytest.mark.parametrize(("measured", "stored"), [(True, 1), (False, 0)])
def test_a_message_that_grew_by_its_conversion_is_stored(
    driver: Driver, measured: bool, stored: int
) -> None:
    driver.create()
    payload = b"x" * (2 * LARGEST)

    [outcome] = driver.run(Append("s", driver.ref(), Batch([payload]), measured=measured))

    assert driver.counts().active == stored
    assert [type(error) for _, error in outcome.failures] == [errors.MessageSizeExceeded] * (
        1 - stored
    )


def test_no_conversion_makes_a_message_of_any_size(driver: Driver) -> None:
    driver.create()
    payload = b"x" * (limits.converted_bytes_max(LARGEST) + 1)

    [outcome] = driver.run(Append("s", driver.ref(), Batch([payload]), measured=True))

    assert isinstance(outcome.failures[0][1], errors.MessageSizeExceeded)
