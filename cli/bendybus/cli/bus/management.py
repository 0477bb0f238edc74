"""The bus's management service, as commands use it: one method per call, each with a deadline."""

import time
from collections.abc import Iterator
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
from bendybus.domain import entity_settings, errors, subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import Description, QueueDescription
from bendybus.domain.limits import Tier
from bendybus.v1 import management_pb2 as pb
from bendybus.v1 import management_pb2_grpc
from bendybus.wire import entities, statuses

_DEADLINE_S: Final = 30.0
_PAGE: Final = 1_000


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

    def queues(self, *, runtime: bool, orphaned: bool = False) -> list[pb.Queue]:
        """Return all queues, by name; orphaned ones only if asked for."""
        found: list[pb.Queue] = []
        token = ""
        while True:
            request = pb.ListQueuesRequest(
                include_runtime=runtime,
                page_size=_PAGE,
                page_token=token,
                include_orphaned=orphaned,
            )
            with self._translated():
                page = self._stub.ListQueues(request, timeout=self._deadline_s)
            found.extend(page.queues)
            token = page.next_page_token
            if not token:
                return sorted(found, key=lambda queue: queue.name.lower())

    def queue(self, name: str) -> pb.Queue:
        """Return one queue with its counts. Raises EntityNotFound."""
        request = pb.GetQueueRequest(name=name, include_runtime=True)
        try:
            with self._translated():
                return self._stub.GetQueue(request, timeout=self._deadline_s).queue
        except errors.EntityNotFound as error:
            raise _of_another_kind(error, name) from error

    def create_by_hand(
        self, name: str, wanted: QueueDescription, *, migrated: bool = False
    ) -> pb.CreateQueueResponse:
        """Make a queue that belongs to no manifest."""
        request = pb.CreateQueueRequest(
            name=name,
            description=chosen(wanted),
            origin=pb.ENTITY_ORIGIN_CLIENT,
            migrated=migrated,
        )
        with self._translated():
            return self._stub.CreateQueue(request, timeout=self._deadline_s)

    def delete(self, queue: pb.Queue) -> pb.DeleteQueueResponse:
        """Delete a queue and its messages, with the origin that created it."""
        request = pb.DeleteQueueRequest(name=queue.name, origin=queue.origin)
        with self._translated():
            return self._stub.DeleteQueue(request, timeout=self._deadline_s)

    def call(self, method: str, request: Any) -> Any:
        """Return the answer of the management service to a request."""
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


def chosen(wanted: Description) -> Any:
    """Return what a new entity has other than by default: the rest is the namespace's to decide."""
    default = type(wanted)()
    changes = {
        each.name: value
        for each in entity_settings.BY_KIND[wanted.kind]
        if (value := getattr(wanted, each.name)) != getattr(default, each.name)
    }
    return entities.changes_to_proto(changes, wanted.kind)
