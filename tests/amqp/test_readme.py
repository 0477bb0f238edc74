"""The program in the README of the room runs as printed."""

import re
import socket
import threading
from pathlib import Path
from typing import Any

from bendybus.amqp import sections
from bendybus.amqp.performatives import Accepted
from bendybus.amqp.sections import Message
from tests.integration.raw_amqp import SENDER, RawAmqp
from tests.ports import HOST
from tests.test_tidy import ROOT

README = Path(ROOT, "amqp/README.md")


def test_the_example_accepts_more_than_its_first_credit() -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program: dict[str, Any] = {}
    exec(found.group(1), program)
    payload = sections.encode(Message(data=(b"body",)))

    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        server = threading.Thread(target=lambda: program["serve"](listener.accept()[0]))
        server.start()
        with RawAmqp(f"{HOST}:{port}").open() as client:
            assert client.attach("queue", SENDER) is None
            outcomes = [client.transfer("queue", payload) for _ in range(1_100)]
        server.join(10)

    assert not server.is_alive()
    assert all(isinstance(each, Accepted) for each in outcomes)
