"""The bus's management service, as commands use it: each call has a deadline. Raises BusError.

Entities and rules are listed, made, changed and deleted. `try_create…`: what `--dry-run` finds out,
whether the bus would refuse. `say_unavailable`: partitions that do not serve, and why, as the front
end sees them and as their logs say.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc

from bendybus.cli import endpoint
from bendybus.cli import errors as cli_errors
from bendybus.cli.endpoint import Endpoint
from bendybus.cli.errors import UsageError
from bendybus.crds.bundle import NamespaceSettings
from bendybus.domain import entity_settings, errors, lifecycle, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description
from bendybus.domain.errors import EntityNotFound
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction, RuleChange
from bendybus.domain.lifecycle import EntityAction, EntityState
from bendybus.domain.limits import Tier
from bendybus.v1 import management_pb2 as pb
from bendybus.v1 import management_pb2_grpc
from bendybus.wire import entities, statuses

_DEADLINE_S: Final = 30.0
_PAGE: Final = 1_000
_RULES_PAGE: Final = 1_000
_CLIENT: Final = pb.ENTITY_ORIGIN_CLIENT
DISK_LOW: Final = "DiskLow"
_TAIL_BYTES: Final = 64 * 1024


class Management:
    """A connection to one bus. Raises BusError only; whatever cannot be reached is retryable."""

    def __init__(
        self, where: str, *, ca_file: Path | None = None, deadline_s: float = _DEADLINE_S
    ) -> None:
        self._endpoint = endpoint.parse(where)
        self._deadline_s = deadline_s
        address = self._endpoint.address
        options = [("grpc.enable_http_proxy", 0)]
        self._channel = (
            grpc.insecure_channel(address, options=options)
            if self._endpoint.plain
            else grpc.secure_channel(
                address, grpc.ssl_channel_credentials(_authorities(ca_file)), options=options
            )
        )
        calls = grpc.intercept_channel(self._channel, _Tokens(self._endpoint))
        self._stub = management_pb2_grpc.ManagementServiceStub(calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    @property
    def address(self) -> str:
        """Where the bus is."""
        return self._endpoint.address

    def namespace(self) -> pb.GetNamespaceResponse:
        """Return the bus and the state of its partitions."""
        with self._translated():
            return self._stub.GetNamespace(pb.GetNamespaceRequest(), timeout=self._deadline_s)

    def namespace_settings(self) -> NamespaceSettings:
        """Return the bus as manifests are checked against it."""
        answer = self.namespace()
        return NamespaceSettings(answer.name, Tier(answer.tier), answer.partition_count)

    def listed(
        self, kind: EntityKind, topic: str = "", *, runtime: bool = True, orphaned: bool = False
    ) -> list[Any]:
        """Return the entities of a kind by name, of subscriptions those of `topic`.

        Orphaned ones only if asked for. `runtime`: with their counts.
        """
        within = {"topic_name": topic} if kind is EntityKind.SUBSCRIPTION else {}
        request = getattr(pb, f"List{kind.capitalize()}sRequest")(
            include_runtime=runtime, page_size=_PAGE, include_orphaned=orphaned, **within
        )
        found: list[Any] = []
        while True:
            page = self.call(request)
            found.extend(getattr(page, f"{kind}s"))
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return sorted(found, key=lambda entity: entity.name.lower())

    def subscriptions_of_listed(
        self, topic: str, *, runtime: bool = True, orphaned: bool = False
    ) -> list[pb.Subscription]:
        """Return the subscriptions of a topic of a list; none if it was deleted since."""
        try:
            return self.listed(EntityKind.SUBSCRIPTION, topic, runtime=runtime, orphaned=orphaned)
        except errors.EntityNotFound:
            return []

    def everything(self, *, runtime: bool = True, orphaned: bool = False) -> Iterator[Any]:
        """Yield all entities, as `listed` does; subscriptions follow their topic."""
        yield from self.listed(EntityKind.QUEUE, runtime=runtime, orphaned=orphaned)
        for topic in self.listed(EntityKind.TOPIC, runtime=runtime, orphaned=orphaned):
            yield topic
            yield from self.subscriptions_of_listed(topic.name, runtime=runtime, orphaned=orphaned)

    def entity(self, kind: EntityKind, name: str, *, runtime: bool = True) -> Any:
        """Return one entity, with its counts unless told not to. Raises EntityNotFound."""
        request = request_of("Get", kind, name, include_runtime=runtime)
        try:
            return getattr(self.call(request), kind.value)
        except errors.EntityNotFound as error:
            if kind is EntityKind.QUEUE:
                raise _of_another_kind(error, name) from error
            raise

    def holding(self, name: str) -> pb.Queue | pb.Subscription:
        """Return the queue or subscription of a name, with its counts. Raises EntityNotFound."""
        within = subscription_name.split(name)
        kind = EntityKind.SUBSCRIPTION if within else EntityKind.QUEUE
        found: pb.Queue | pb.Subscription = self.entity(kind, name)
        return found

    def detects_duplicates(self, name: str) -> bool:
        """Return whether duplicates are detected where the messages of `name` are sent to."""
        parts = subscription_name.split(name)
        kind = EntityKind.TOPIC if parts else EntityKind.QUEUE
        found = self.entity(kind, parts[0] if parts else name)
        return bool(found.description.requires_duplicate_detection)

    def create(self, name: str, wanted: Description, **fields: Any) -> Any:
        """Make an entity that belongs to no manifest."""
        return self.call(
            request_of(
                "Create",
                wanted.kind,
                name,
                description=_chosen(wanted),
                origin=pb.ENTITY_ORIGIN_CLIENT,
                **fields,
            )
        )

    def update(self, found: Any, changes: Mapping[str, Any]) -> Any:
        """Change settings of an entity that belongs to no manifest, unless it was changed since."""
        kind = entities.kind_of(found)
        return self.call(
            request_of(
                "Update",
                kind,
                entities.name_of(found),
                description=entities.changes_to_proto(changes, kind),
                origin=pb.ENTITY_ORIGIN_CLIENT,
                if_generation=found.generation,
            )
        )

    def delete(self, found: Any) -> Any:
        """Delete an entity and its messages, with the origin that created it."""
        request = request_of(
            "Delete", entities.kind_of(found), entities.name_of(found), origin=found.origin
        )
        return self.call(request)

    def call(self, request: Any) -> Any:
        """Return the answer of the management service to a request; its method has that name."""
        method = type(request).__name__.removesuffix("Request")
        with self._translated():
            return getattr(self._stub, method)(request, timeout=self._deadline_s)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            found = statuses.from_rpc_error(error)
            if type(found) is errors.RetryableError:
                raise errors.RetryableError(
                    cli_errors.no_answer(
                        self.address, found.message, use_tls=not self._endpoint.plain
                    )
                ) from error
            raise found from error


def request_of(verb: str, kind: EntityKind, name: str, **fields: Any) -> Any:
    """Return the request of a call on the entity of a name."""
    parts = subscription_name.split(name) if kind is EntityKind.SUBSCRIPTION else None
    names = {"topic_name": parts[0], "name": parts[1]} if parts else {"name": name}
    return getattr(pb, f"{verb}{kind.capitalize()}Request")(**names, **fields)


def _of_another_kind(error: errors.EntityNotFound, name: str) -> errors.EntityNotFound:
    """Return the error with the command for what has the name, if something else than a queue."""
    parts = subscription_name.split(name)
    commands: dict[str, str] = {
        EntityKind.TOPIC: f"get topic {name}",
        EntityKind.SUBSCRIPTION: f"get subscription {' '.join(parts or (name,))}",
    }
    command = commands.get(error.metadata.get("kind", ""))
    if command is None:
        return error
    return errors.EntityNotFound(
        f"{error.message} Use bendybus {command}.", metadata=dict(error.metadata)
    )


class _Tokens(grpc.UnaryUnaryClientInterceptor):
    """Adds a freshly signed token to every call."""

    def __init__(self, where: Endpoint) -> None:
        self._where = where

    def intercept_unary_unary(
        self, continuation: Any, client_call_details: Any, request: Any
    ) -> Any:
        """Make the call with a token."""
        token = self._where.token(time.time())
        metadata = [("authorization", token)] if token else []
        return continuation(client_call_details._replace(metadata=metadata), request)


def _authorities(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise UsageError(
            f"--ca-file {file}: {reason}. Name the file of the bus's ca.crt."
        ) from error


def _chosen(wanted: Description) -> Any:
    """Return what a new entity has other than by default: the rest is the namespace's to decide."""
    default = type(wanted)()
    changes = {
        each.name: value
        for each in entity_settings.BY_KIND[wanted.kind]
        if (value := getattr(wanted, each.name)) != getattr(default, each.name)
    }
    return entities.changes_to_proto(changes, wanted.kind)


def list_rules(bus: Management, topic_name: str, subscription_name: str) -> list[pb.Rule]:
    """Return the rules of a subscription, by name. Raises EntityNotFound."""
    found: list[pb.Rule] = []
    request = pb.ListRulesRequest(
        topic_name=topic_name, subscription_name=subscription_name, page_size=_RULES_PAGE
    )
    while True:
        page = bus.call(request)
        found.extend(page.rules)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def find_rule(bus: Management, topic_name: str, subscription_name: str, name: str) -> pb.Rule:
    """Return one rule. Raises EntityNotFound."""
    request = pb.GetRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name
    )
    found: pb.Rule = bus.call(request).rule
    return found


def create_rule(bus: Management, topic_name: str, subscription_name: str, wanted: Rule) -> Any:
    """Make a rule."""
    request = pb.CreateRuleRequest(
        topic_name=topic_name,
        subscription_name=subscription_name,
        rule=entities.rule_to_proto(wanted),
        origin=_CLIENT,
    )
    return bus.call(request)


def delete_rule(bus: Management, topic_name: str, subscription_name: str, name: str) -> Any:
    """Delete a rule."""
    request = pb.DeleteRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name, origin=_CLIENT
    )
    return bus.call(request)


def try_create(bus: Management, kind: EntityKind, name: str) -> None:
    """Check that no entity has the name, and that the topic of a subscription exists."""
    parts = subscription_name.split(name) if kind is EntityKind.SUBSCRIPTION else None
    if parts:
        bus.entity(EntityKind.TOPIC, parts[0])
    try:
        _refuse(bus.entity(kind if parts else EntityKind.QUEUE, name), name)
    except EntityNotFound as error:
        if not parts and error.metadata.get("kind") == EntityKind.TOPIC:
            _refuse(bus.entity(EntityKind.TOPIC, name), name)


def try_create_rule(bus: Management, topic: str, subscription: str, wanted: Rule) -> None:
    """Check that the subscription exists, and has no rule of the name."""
    path = subscription_name.compose(topic, subscription)
    found = bus.entity(EntityKind.SUBSCRIPTION, path, runtime=False)
    known = entities.description_from_proto(found.description).rules
    rule_set.changed(known, RuleChange(RuleAction.CREATE, wanted), entities.name_of(found))


def _refuse(found: Any, name: str) -> None:
    """Raise what creates of a name that is taken are refused with."""
    state = EntityState.ORPHANED if found.orphaned else EntityState.LIVE
    kind = entities.kind_of(found)
    lifecycle.after(state, EntityAction.CREATE, name, facts={}, kind=kind)


def say_unavailable(
    partitions: Iterable[pb.NamespacePartition], logs: Mapping[int, Path]
) -> list[str]:
    """Return a sentence for each partition that does not serve, or takes no messages.

    `logs`: their logs, if on this machine.
    """
    shown = list(partitions)
    full = [each for each in shown if each.available and DISK_LOW in each.conditions]
    return [
        f"Partition {each.partition} takes no messages: its volume has less room than it keeps "
        "free. Receive or purge messages, or give it more room."
        for each in full
    ] + [
        f"Partition {each.partition} does not serve: {_why(each, logs.get(each.partition))}"
        for each in shown
        if not each.available
    ]


def _why(partition: pb.NamespacePartition, log: Path | None) -> str:
    said = _last_error(log, partition.partition) if log is not None else ""
    return said or f"{'; '.join(partition.conditions) or 'it does not answer'}."


def _last_error(log: Path, partition: int) -> str:
    """Return the last error of a partition in a log, "" if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if not isinstance(entry, dict) or entry.get("partition") != partition:
            continue
        if entry.get("level") == "error":
            return str(entry.get("message", "")).removeprefix(f"partition {partition}: ")
        # Whatever was wrong before, it was opened since.
        if entry.get("action") == "open":
            return ""
    return ""
