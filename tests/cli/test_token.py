"""`bendybus token`: a shared access signature, as a line and as an object."""

import json
import time
from datetime import datetime

import pytest

from bendybus.cli import __main__ as command

pytestmark = pytest.mark.requirement("R652")
BUS = "Endpoint=sb://prod.example:7480;SharedAccessKeyName=n;SharedAccessKey=secret"


def test_a_token_is_a_line_or_an_object_that_says_when_it_ends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["token", "orders", "--ttl", "60", "--connection-string", BUS]
    codes = [command.main(words), command.main([*words, "-o", "json"])]
    line, text = capsys.readouterr().out.splitlines()
    found = json.loads(text)

    assert codes == [0, 0]
    for signed in line, found["token"]:
        assert signed.startswith(
            "SharedAccessSignature sr=sb%3A%2F%2Fprod.example%3A7480%2Forders&"
        )
        assert "secret" not in signed
    lasts_s = datetime.fromisoformat(found["expires"]).timestamp() - time.time()
    assert 30 < lasts_s <= 60
