"""How other commands talk to a running `bendybus up`: JSON lines over a unix socket.

    → {"action": "ps"}                        ← {"processes": [ … ]}
    → {"action": "stop",  "partition": 3}     ← {"partitions": [3, 7], "pid": 4711}
    → {"action": "start", "partition": 3}     ← {"partitions": [3, 7], "pid": 4712}
                                              ← {"error": "one sentence", "exit_code": 3}

One request per connection. The socket is in a folder of its own that only its owner may enter.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from bendybus.cli.errors import CliError, Unreachable, with_exit_code

_LINE_BYTES_MAX: Final = 2**20
_REQUEST_S: Final = 5.0
_ANSWER_S: Final = 90.0

Facts = dict[str, Any]
Handler = Callable[[Facts], Awaitable[Facts]]


async def serve(path: Path, handler: Handler) -> asyncio.AbstractServer:
    """Answer requests with `handler` until the server is closed."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                line = await reader.readline()
            reply = await _reply(line, handler)
            writer.write(json.dumps(reply).encode() + b"\n")
            async with asyncio.timeout(_REQUEST_S):
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            pass  # The caller is gone or talks nonsense: nothing to tell it.
        finally:
            writer.close()

    return await asyncio.start_unix_server(answer, path=path, limit=_LINE_BYTES_MAX)


async def _reply(line: bytes, handler: Handler) -> Facts:
    try:
        request = json.loads(line)
        if not isinstance(request, dict):
            raise CliError("The request must be a JSON object.")
        return await handler(request)
    except json.JSONDecodeError:
        return {"error": "The request is not JSON."}
    except CliError as error:
        return {"error": str(error), "exit_code": error.exit_code}


def ask(path: str, request: Facts) -> Facts:
    """Return the answer of the `bendybus up` that listens at `path`.

    Raises Unreachable when there is none, CliError when it refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_ANSWER_S)
            connection.connect(path)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as file:
                line = file.readline(_LINE_BYTES_MAX)
            answer = json.loads(line)
    except (OSError, ValueError) as error:
        raise Unreachable(
            "The bendybus up that started this bus does not answer. Is it stopping?"
        ) from error
    if "error" in answer:
        raise with_exit_code(str(answer["error"]), answer.get("exit_code", 1))
    return dict(answer)
