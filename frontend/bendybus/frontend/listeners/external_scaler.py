"""externalscaler.ExternalScaler, as KEDA calls it: how many consumers an entity needs.

    trigger ──► connection string ──► key, Listen ──► figures of the entity ──► targets, values

KEDA sends no token. The metadata of a trigger has a connection string (`connectionFromEnv`, whose
variable KEDA replaces by its value), and its key is verified as that of any client. Names of the
metadata are those of KEDA's own scaler for Azure Service Bus, and a few of ours.
"""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc

from bendybus.domain import bounds, errors, limits, message_access, shared_access, subscription_name
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.core.scaling import Figure, Scaling
from bendybus.frontend.listeners import call_gate
from bendybus.frontend.listeners.call_gate import UnaryCall
from bendybus.frontend.listeners.request_values import Context
from bendybus.frontend.security.authenticator import Authenticator, Caller, Operation
from bendybus.v1 import external_scaler_pb2
from bendybus.wire import statuses
from bendybus.wire.streams import Drain

_SERVICE: Final = "/externalscaler.ExternalScaler/"
# A trigger has a few hundred bytes.
TRIGGER_BYTES_MAX: Final = 16 * limits.KB
# Bounds of the texts that a call keeps while it waits for figures, or while its stream is open.
_CONNECTION_CHARS_MAX: Final = 4_096
_METRIC_CHARS_MAX: Final = 100
# How long a call waits for a place among those whose key is not verified yet.
_PLACE_S: Final = 10.0
# Calls of a connection that may wait for one: all triggers of a large cluster at once.
_WAITING_MAX: Final = 500
# How often a stream looks whether there is something to do; streams differ, or all would look at
# the same time once they had waited for the same answer.
LOOK_S: Final = 2.0
_LOOK_FACTORS: Final = (0.8, 1.2)
_TARGET_MAX: Final = 10**12
_MESSAGES_DEFAULT: Final = 5.0
# By figure, the metadata with the target of each consumer, and with what activation needs.
_NAMES: Final[Mapping[Figure, tuple[str, str]]] = {
    Figure.MESSAGES: ("messageCount", "activationMessageCount"),
    Figure.SESSIONS: ("sessionCount", "activationSessionCount"),
    Figure.AGE: ("oldestMessageAgeSeconds", "activationOldestMessageAgeSeconds"),
}
_CONNECTION: Final = ("connectionFromEnv", "connection")
_TOKEN_LASTS_S: Final = 60
Metadata = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger. `targets`: by figure, the part of one consumer, and the activation."""

    path: str
    targets: Mapping[Figure, tuple[float, float]]


def read(metadata: Metadata) -> Trigger:
    """Return the trigger of some metadata. Raises InvalidArgument."""
    queue, topic = metadata.get("queueName", ""), metadata.get("topicName", "")
    subscription = metadata.get("subscriptionName", "")
    if bool(queue) == bool(topic) or bool(topic) != bool(subscription):
        raise InvalidArgument("queueName", "or topicName and subscriptionName must be given.")
    if metadata.get("useRegex", "").lower() == "true":
        raise InvalidArgument(
            "useRegex", "is not supported here: use a trigger for each, or KEDA's azure-servicebus."
        )
    path = queue or subscription_name.compose(topic, subscription)
    bounds.check_path(path)
    targets = {
        figure: (
            _number(metadata, target, _MESSAGES_DEFAULT, least=0.001),
            _number(metadata, activation, 0.0),
        )
        for figure, (target, activation) in _NAMES.items()
        if target in metadata
    }
    if not targets:
        activation = _NAMES[Figure.MESSAGES][1]
        targets = {Figure.MESSAGES: (_MESSAGES_DEFAULT, _number(metadata, activation, 0.0))}
    return Trigger(path, targets)


def connection_of(metadata: Metadata) -> str:
    """Return the connection string of a trigger; "" if it has none. Raises InvalidArgument."""
    name = next((name for name in _CONNECTION if metadata.get(name)), "")
    text = metadata.get(name, "")
    if len(text) > _CONNECTION_CHARS_MAX:
        raise InvalidArgument(name, f"must be at most {_CONNECTION_CHARS_MAX} characters.")
    return text


def token_of(connection: str, now_s: float) -> str:
    """Return the token that a connection string has, or that its key signs; "" if it has none."""
    pairs = (part.partition("=") for part in connection.split(";"))
    parts = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if parts.get("sharedaccesssignature"):
        return parts["sharedaccesssignature"]
    key, policy = parts.get("sharedaccesskey", ""), parts.get("sharedaccesskeyname", "")
    if not key or not policy:
        return ""
    uri = parts.get("endpoint", "").replace("sb://", "https://") or "https://bus/"
    return shared_access.sign(uri, policy, key, int(now_s) + _TOKEN_LASTS_S)


def _number(metadata: Metadata, name: str, default: float, *, least: float = 0.0) -> float:
    text = metadata.get(name, "")
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not least <= found <= _TARGET_MAX:
        raise InvalidArgument(name, f"must be a number from {least:g} on (got {text[:40]!r}).")
    return found


def _metric(figure: Figure) -> str:
    return f"bendybus-{figure}"


def _too_many() -> BusError:
    return errors.ServerBusy(
        "too many calls of this connection wait to be read. Repeat it.", retry_after_ms=1_000
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The part of a request that is kept: its message may take a hundred times its bytes."""

    trigger: Trigger
    connection: str
    metric: str
    policy: str


_Answer = Callable[["ExternalScaler", _Asked], Awaitable[Any]]


class ExternalScaler:
    """The scaler of one front end; `handlers` has a handler for each method."""

    def __init__(self, front_end: FrontEnd, authenticator: Authenticator, drain: Drain) -> None:
        self._front_end = front_end
        self._authenticator = authenticator
        self._drain = drain
        self._scaling = Scaling(front_end)

    def handlers(self) -> dict[str, Any]:
        """Return handlers by method. Each verifies the key in its request."""
        trigger, metrics = (
            external_scaler_pb2.ScaledObjectRef,
            external_scaler_pb2.GetMetricsRequest,
        )
        return {
            f"{_SERVICE}IsActive": self._unary(trigger, ExternalScaler._is_active),
            f"{_SERVICE}GetMetricSpec": self._unary(trigger, ExternalScaler._specs),
            f"{_SERVICE}GetMetrics": self._unary(metrics, ExternalScaler._metrics),
            f"{_SERVICE}StreamIsActive": self._stream(),
        }

    def _unary(self, kind: Any, answer: _Answer) -> Any:
        async def called(_: AsyncIterator[bytes], context: Context) -> None:
            async with statuses.errors_as_status(context):
                asked = await self._read(context, kind)
                with UnaryCall(self._front_end.quota, context, asked.policy) as call:
                    answered = await answer(self, asked)
                    await call.write(answered.SerializeToString())

        return grpc.stream_stream_rpc_method_handler(called)

    def _stream(self) -> Any:
        async def called(_: AsyncIterator[bytes], context: Context) -> None:
            async with statuses.errors_as_status(context):
                asked = await self._read(context, external_scaler_pb2.ScaledObjectRef)
                streams, holder = (
                    self._front_end.quota.streams,
                    Holder(context.peer(), asked.policy),
                )
                if not streams.take(holder, 1):
                    raise errors.ServerBusy("too many streams are open.", retry_after_ms=1_000)
                try:
                    await self._watch(context, asked)
                finally:
                    streams.give(holder, 1)

        return grpc.stream_stream_rpc_method_handler(called)

    async def _watch(self, context: Context, asked: _Asked) -> None:
        """Write whether a trigger is active, at once and whenever that changes.

        Raises why its key, its entity or this front end is not there any more.
        """
        said: bool | None = None
        stopping = asyncio.Event()
        with self._drain.stream(stopping.set):
            while not stopping.is_set():
                self._allowed(asked.connection, asked.trigger)
                answer = await self._is_active(asked)
                if answer.result != said:
                    said = answer.result
                    await context.write(answer.SerializeToString())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S * random.uniform(*_LOOK_FACTORS)):
                        await stopping.wait()
        raise errors.RetryableError("this front end is stopping: open the stream again.")

    async def _read(self, context: Context, kind: Any) -> _Asked:
        """Return a request whose key has the right to its figures. Raises why it is refused.

        Until its key is verified it is a stranger's: it has one of a few places of its connection.
        """
        quota = self._front_end.quota
        room, holder = quota.open_calls, Holder(context.peer(), "")
        if room.waiting(holder) >= _WAITING_MAX:
            raise _too_many()
        try:
            async with asyncio.timeout(_PLACE_S):
                await room.wait(holder, 1)
        except TimeoutError:
            raise _too_many() from None
        try:
            with UnaryCall(quota, context, "") as call:
                data = await call.read(TRIGGER_BYTES_MAX)
                if len(data) > TRIGGER_BYTES_MAX:
                    raise errors.MessageSizeExceeded(
                        f"the request has {len(data)} bytes; a trigger has at most "
                        f"{TRIGGER_BYTES_MAX}."
                    )
                request = call_gate.parsed(data, kind.FromString)
                metadata = getattr(request, "scaledObjectRef", request).scalerMetadata
                connection = connection_of(metadata)
                caller = self._authenticated(connection)
        finally:
            room.give(holder, 1)
        quota.is_known(context.peer())
        trigger = read(metadata)
        caller.check(Operation.GET_SCALING, trigger.path)
        metric = getattr(request, "metricName", "")[:_METRIC_CHARS_MAX]
        return _Asked(trigger, connection, metric, caller.policy)

    def _authenticated(self, connection: str) -> Caller:
        return self._authenticator.authenticate(token_of(connection, time.time()))

    def _allowed(self, connection: str, trigger: Trigger) -> None:
        """Raise unless a key has the right to the figures of a trigger."""
        self._authenticated(connection).check(Operation.GET_SCALING, trigger.path)

    async def _is_active(self, asked: _Asked) -> Any:
        """Return whether one of the figures is above its activation, if others are known or not."""
        unknown: BusError | None = None
        for figure, (_target, activation) in asked.trigger.targets.items():
            try:
                if await self._figure(asked.trigger, figure) > activation:
                    return external_scaler_pb2.IsActiveResponse(result=True)
            except BusError as error:
                unknown = unknown or error
        if unknown is not None:
            raise unknown
        return external_scaler_pb2.IsActiveResponse(result=False)

    async def _specs(self, asked: _Asked) -> Any:
        specs = [
            external_scaler_pb2.MetricSpec(
                metricName=_metric(figure),
                targetSize=max(1, math.ceil(target)),
                targetSizeFloat=target,
            )
            for figure, (target, _activation) in asked.trigger.targets.items()
        ]
        return external_scaler_pb2.GetMetricSpecResponse(metricSpecs=specs)

    async def _metrics(self, asked: _Asked) -> Any:
        for figure in asked.trigger.targets:
            if asked.metric in (_metric(figure), ""):
                value = await self._figure(asked.trigger, figure)
                found = external_scaler_pb2.MetricValue(
                    metricName=_metric(figure), metricValue=math.ceil(value), metricValueFloat=value
                )
                return external_scaler_pb2.GetMetricsResponse(metricValues=[found])
        names = ", ".join(map(_metric, asked.trigger.targets))
        raise InvalidArgument("metricName", f"must be one of {names}.")

    async def _figure(self, trigger: Trigger, figure: Figure) -> float:
        entity = self._front_end.directory.find(trigger.path)
        message_access.check(entity, message_access.Access.RECEIVE)
        return await self._scaling.figure(entity, figure)
