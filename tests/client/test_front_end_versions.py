"""Front ends of other versions: which ones a client works with, on each of its streams."""

from typing import Any

import pytest

from bendybus.client import ServiceBusMessage
from bendybus.client.exceptions import ServiceBusError
from bendybus.wire.contract_versions import CLIENT
from tests.client.fake_front_end import FakeFrontEnd

pytestmark = pytest.mark.requirement("R602")


async def test_a_client_says_the_number_of_its_contract(
    fake: FakeFrontEnd, sender: Any, receiver: Any
) -> None:
    await sender.send_messages(ServiceBusMessage("x"))
    await receiver.receive_messages(max_wait_time=5)

    for stream in ("SendStream", "ReceiveStream"):
        assert CLIENT.said in fake.metadata[stream]


async def test_a_later_front_end_gets_nothing_and_callers_get_the_reason(
    fake: FakeFrontEnd, sender: Any, receiver: Any
) -> None:
    fake.said = (("bendybus-contract", str(CLIENT.number + 2)),)
    sentence = "the front end uses version 6 of the contract between client and front end"

    with pytest.raises(ServiceBusError, match=sentence):
        await sender.send_messages(ServiceBusMessage("x"), timeout=20)
    with pytest.raises(ServiceBusError, match=sentence):
        await receiver.receive_messages(max_wait_time=20)

    assert fake.frames == []
    assert fake.asks == []
