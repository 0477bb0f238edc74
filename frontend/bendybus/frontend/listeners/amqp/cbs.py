"""$cbs: clients put tokens here, and get a status for each.

Source: AMQP Claims-based Security; `type` is not looked at, since SDKs call a shared access
signature "jwt".
"""

from typing import Any, Final

from bendybus.amqp.events import Delivered
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Int
from bendybus.domain import errors
from bendybus.domain.errors import BusError
from bendybus.frontend.listeners.amqp.request_links import RequestLink

_OK: Final = 202
_SCHEME: Final = "SharedAccessSignature"


class CbsLink(RequestLink):
    """Takes the tokens of a connection."""

    def request(self, request: Message, event: Delivered) -> None:
        """Take a token."""
        asked = request.application_properties
        given: dict[Any, Any] = asked if isinstance(asked, dict) else {}
        operation, audience, token = given.get("operation"), given.get("name"), request.value
        if operation != "put-token" or not isinstance(audience, str):
            self._say(request, 400, "the operation must be put-token, with a name: the audience.")
            return
        if isinstance(token, bytes):
            token = token.decode("ascii", "replace")
        if not isinstance(token, str) or (
            self.connection.authenticator.required and not token.startswith(_SCHEME)
        ):
            self._say(
                request,
                401,
                "the token is not a shared access signature, and no other issuer is configured.",
            )
            return
        try:
            self.connection.put_token(audience, token)
        except errors.InvalidArgument as error:
            self._say(request, 400, error.message)
        except BusError as error:
            self._say(request, 401, error.message)
        else:
            self._say(request, _OK, "Accepted")

    def _say(self, request: Message, status: int, text: str) -> None:
        # Without an error condition: the Python SDK would look no further, and lose the status.
        self.reply(request, {"status-code": Int(status), "status-description": text})
