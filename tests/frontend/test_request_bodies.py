"""Bodies of requests whose client leaves while they are read."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bendybus.frontend.listeners.web import requests

pytestmark = pytest.mark.requirement("R652")


def request_of(transport: object) -> Any:
    """Return a request whose body cannot be read to its end."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x"
        raise RuntimeError("Connection closed.")

    content = SimpleNamespace(iter_any=pieces)
    return SimpleNamespace(headers={}, content_length=10, content=content, transport=transport)


async def test_a_client_that_left_is_no_defect_of_the_bus() -> None:
    with pytest.raises(ConnectionResetError):
        await requests.read_body(request_of(None))


async def test_a_defect_stays_one() -> None:
    with pytest.raises(RuntimeError):
        await requests.read_body(request_of(object()))
