"""$cbs: clients put tokens here, and get a status for each.

As with Service Bus, the status is 404 if the token's entity does not exist, but only if the token
has a right to that name, so that others cannot find out which entities exist. A bus without
policies accepts the token: the attach that follows fails with a better error.

Source: AMQP Claims-based Security. The `type` is ignored, since SDKs call a shared access signature
"jwt".
"""

from typing import Any, Final

from bendybus.amqp.events import Delivered
from bendybus.amqp.sections import Message
from bendybus.amqp.values import Int
from bendybus.domain.errors import BusError, EntityNotFound, InvalidArgument
from bendybus.frontend.listeners import request_values
from bendybus.frontend.listeners.amqp import addresses, conditions
from bendybus.frontend.listeners.amqp.request_links import RequestLink
from bendybus.frontend.security.authenticator import Operation

_OK: Final = 202
_SCHEME: Final = "SharedAccessSignature"
_MANAGEMENT: Final = "/$management"


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
        except InvalidArgument as error:
            self._say(request, 400, error.message)
            return
        except BusError as error:
            self._say(request, 401, error.message)
            return
        missing = self._missing(audience)
        if missing is None:
            self._say(request, _OK, "Accepted")
        else:
            told = conditions.of(missing, audience)
            self._say(request, conditions.status_of(missing), told.description or "")

    def _missing(self, audience: str) -> EntityNotFound | None:
        """Return an error if the audience is an entity that does not exist."""
        node = addresses.path_of(audience)
        path = node.removesuffix(_MANAGEMENT)
        if not path or not self.connection.authenticator.required:
            return None
        try:
            self.connection.claims.check(Operation.DESCRIBE_PARTITIONS, node)
            name, _ = request_values.entity_and_sub_queue(path)
            self.connection.front_end.directory.find(name)
        except EntityNotFound as error:
            return error
        except BusError:
            # A client without rights there gets its error at the attach.
            return None
        return None

    def _say(self, request: Message, status: int, text: str) -> None:
        # Without an error condition: the Python SDK would ignore the status.
        self.reply(request, {"status-code": Int(status), "status-description": text})
