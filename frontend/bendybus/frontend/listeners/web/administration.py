"""Administration over HTTP, as the clients of official SDKs do it: a request is one operation.

    request ──► token ──► resource and route ──► right ──► body ──► core ──► document

Each kind of resource and method is a row of `ROUTES`, with the right that it needs. A missing queue
or topic is an empty feed, as the service answers. Source: what the clients of the official SDKs for
Python, JavaScript, Java and Go send and expect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aiohttp import web

from bendybus.domain import errors, lifecycle, limits
from bendybus.domain.entity import Entity, rules_of
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.entity_settings import SubscriptionDescription
from bendybus.domain.errors import BusError, InvalidArgument
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction
from bendybus.domain.lifecycle import EntityAction
from bendybus.frontend.core import manage
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.quota.bounds import (
    BODY_BYTES_MAX,
    ENTRIES_A_TURN,
    ENTRY_BYTES,
    FEED_BYTES,
)
from bendybus.frontend.core.quota.room import Holder
from bendybus.frontend.listeners.web import (
    atom,
    entity_documents,
    requests,
    resources,
    rule_documents,
)
from bendybus.frontend.listeners.web.entity_documents import Shown, Wanted
from bendybus.frontend.listeners.web.requests import Asked
from bendybus.frontend.listeners.web.resources import Resource, ResourceKind
from bendybus.frontend.security.authenticator import Authenticator, Operation
from bendybus.frontend.upstreams.unary_calls import Commit

# By setting, the header with a token for the destination.
FORWARD_TOKENS: Final[Mapping[str, str]] = {
    "forward_to": "ServiceBusSupplementaryAuthorization",
    "forward_dead_lettered_messages_to": "ServiceBusDlqSupplementaryAuthorization",
}
_KINDS: Final = {
    ResourceKind.QUEUES: EntityKind.QUEUE,
    ResourceKind.TOPICS: EntityKind.TOPIC,
    ResourceKind.SUBSCRIPTIONS: EntityKind.SUBSCRIPTION,
}


Handle = Callable[["Administration", Asked], Awaitable[web.Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """An operation on a kind of resource.

    `on`: the entity on which the caller needs the right to it; "": the namespace.
    """

    operation: Operation
    handle: Handle
    on: Callable[[Resource], str] = lambda resource: resource.path
    answer_bytes: int = ENTRY_BYTES
    has_body: bool = False


class Administration:
    """The administration of one front end."""

    def __init__(self, front_end: FrontEnd, authenticator: Authenticator) -> None:
        self._front_end = front_end
        self._directory, self._manager = front_end.directory, front_end.manager
        self._authenticator = authenticator
        self._page = asyncio.Lock()

    async def handle(
        self, request: web.Request, known: Callable[[str], None]
    ) -> web.StreamResponse:
        """Answer a request. `known` is called with its policy, once its token is verified."""
        try:
            caller = self._authenticator.authenticate(
                requests.token_of(request.headers.get("Authorization"))
            )
            known(caller.policy)
            requests.check_host(request)
            resource, route = _routed(request)
            paths = [path.strip("/") for path in (request.path, request.rel_url.raw_path)]
            caller.check(route.operation, route.on(resource), resources=paths)
            return await self._within_bounds(route, Asked(request, caller, resource))
        except BusError as error:
            return requests.error_response(error)

    async def _within_bounds(self, route: Route, asked: Asked) -> web.StreamResponse:
        """Perform an operation while its call, its request and its answer have room.

        The answer has room until the client has taken it.
        """
        quota = self._front_end.quota
        holder = Holder(asked.request.protocol, asked.caller.policy)
        with requests.call(quota, holder):
            async with (
                requests.room(quota.requests, holder, BODY_BYTES_MAX if route.has_body else 0),
                requests.room(quota.answers, holder, route.answer_bytes),
            ):
                body = await requests.read_body(asked.request) if route.has_body else b""
                answer = await route.handle(self, replace(asked, body=body))
                if answer.body is None:
                    return answer
                return await requests.write(asked.request, answer)

    # Entities

    async def get_entity(self, asked: Asked) -> web.Response:
        """Show a queue or a topic; nothing if there is none."""
        try:
            entity = self._directory.find(asked.resource.path)
        except errors.EntityNotFound:
            return requests.nothing_response(asked)
        return await self._shown(asked, entity, 200)

    async def get_subscription(self, asked: Asked) -> web.Response:
        """Show a subscription."""
        return await self._shown(asked, self._subscription(asked), 200)

    async def list_entities(self, asked: Asked) -> web.Response:
        """Show a page of queues, topics, or the subscriptions of a topic."""
        kind = _KINDS[asked.resource.kind]
        topic = ""
        if kind is EntityKind.SUBSCRIPTION:
            topic = self._directory.find(asked.resource.entity, EntityKind.TOPIC).key
        skip, top = requests.page_of(asked)
        page, more = self._directory.slice(skip, top, kind=kind, topic=topic)
        runtimes = await self._manager.runtime(page)
        entries = await self._in_turns(
            self._entry(asked, entity, runtime)
            for entity, runtime in zip(page, runtimes, strict=True)
        )
        return requests.feed_response(asked, entries, skip + top if more else None)

    async def put_entity(self, asked: Asked) -> web.Response:
        """Create a queue or a topic, or replace its description."""
        return await self._put(asked, (EntityKind.QUEUE, EntityKind.TOPIC))

    async def put_subscription(self, asked: Asked) -> web.Response:
        """Create a subscription, or replace its description."""
        return await self._put(asked, (EntityKind.SUBSCRIPTION,))

    async def delete(self, asked: Asked) -> web.Response:
        """Delete a queue, a topic or a subscription."""
        entity = self._directory.find(asked.resource.path)
        await self._manager.change(Commit(EntityAction.DELETE, entity.name, kind=entity.kind))
        return web.Response()

    async def _shown(self, asked: Asked, entity: Entity, status: int) -> web.Response:
        [runtime] = await self._manager.runtime([entity])
        return requests.entry_response(self._entry(asked, entity, runtime), status)

    async def _put(self, asked: Asked, kinds: Sequence[EntityKind]) -> web.Response:
        path, update = asked.resource.path, requests.is_update(asked.request)
        wanted = entity_documents.read(atom.described(asked.body), asked.request.host)
        if wanted.kind not in kinds:
            expected = " or ".join(kinds)
            raise InvalidArgument(
                "body", f"describes a {wanted.kind}; this URL is of a {expected}."
            )
        if update:
            self._directory.find(path, wanted.kind)
        own_rules = self._own_rules(path, wanted, update=update)
        self._check_destinations(asked, wanted)
        changed = await self._manager.change(
            Commit(
                EntityAction.UPDATE if update else EntityAction.CREATE,
                path,
                changes={**(wanted.replaced() if update else wanted.created()), **own_rules},
                kind=wanted.kind,
            )
        )
        return await self._shown(asked, changed.entity, 200 if update else 201)

    def _own_rules(self, path: str, wanted: Wanted, *, update: bool) -> dict[str, Any]:
        """Return the change of an entity's own authorization rules, if there is one.

        Raises InvalidOperation if it is one of policies of the namespace; EntityAlreadyExists
        instead for what exists: clients that create it again look for that error.
        """
        try:
            policies = self._authenticator.policies_of(path)
            rules = entity_documents.own_rules(wanted, policies, update=update)
        except errors.InvalidOperation:
            known = None if update else self._directory.known(path)
            if known is not None:
                action = EntityAction.CREATE
                lifecycle.after(known.state, action, known.name, facts={}, kind=known.kind)
            raise
        return {} if rules is None else {"authorization_rules": tuple(rules)}

    def _check_destinations(self, asked: Asked, wanted: Wanted) -> None:
        """Raise Unauthorized unless the caller has the right where messages are to go on to."""
        for setting, header in FORWARD_TOKENS.items():
            destination = wanted.changes.get(setting)
            if not destination:
                continue
            token = asked.request.headers.get(header)
            caller = asked.caller
            if token is not None:
                caller = self._authenticator.authenticate(requests.token_of(token))
            caller.check(Operation.UPDATE_ENTITY, destination)

    def _entry(self, asked: Asked, entity: Entity, runtime: manage.Runtime) -> str:
        fingerprint = self._directory.fingerprint
        assert fingerprint is not None, "an entity is known, so its namespace is"
        shown = Shown(
            entity,
            runtime,
            fingerprint.tier,
            host=asked.request.host,
            api_version=asked.request.query.get("api-version", "")[:20],
            policies=self._authenticator.policies_of(entity.name),
        )
        if entity.kind is EntityKind.TOPIC:
            sql, others = self._directory.filter_counts(entity.key)
            shown = replace(
                shown,
                subscription_count=self._directory.subscription_count(entity.key),
                sql_filter_count=sql,
                correlation_filter_count=others,
            )
        return atom.entry(
            asked.entry_url(entity.name),
            entity_documents.title_of(entity),
            entity_documents.written(shown),
            author=fingerprint.namespace_name,
            created_ms=entity.created_at_ms,
            updated_ms=entity.updated_at_ms,
        )

    async def _in_turns(self, entries: Iterator[str]) -> list[str]:
        """Return the entries of a page; a few are written in each turn of the event loop.

        Pages are written one at a time: otherwise the turns of several pages would run one after
        the other, and block the loop as long as a whole page does.
        """
        made: list[str] = []
        async with self._page:
            for each in entries:
                made.append(each)
                if not len(made) % ENTRIES_A_TURN:
                    await asyncio.sleep(0)
        return made

    # Rules

    async def get_rule(self, asked: Asked) -> web.Response:
        """Show a rule."""
        subscription = self._subscription(asked)
        rules = rules_of(subscription)
        found = rule_set.get(rules, asked.resource.rule, subscription.name)
        return requests.entry_response(self._rule_entry(asked, subscription, found))

    async def list_rules(self, asked: Asked) -> web.Response:
        """Show a page of rules."""
        subscription = self._subscription(asked)
        rules = sorted(rules_of(subscription), key=lambda each: each.name.lower())
        skip, top = requests.page_of(asked)
        entries = await self._in_turns(
            self._rule_entry(asked, subscription, each) for each in rules[skip:][:top]
        )
        return requests.feed_response(
            asked, entries, skip + top if len(rules) > skip + top else None
        )

    async def put_rule(self, asked: Asked) -> web.Response:
        """Create a rule, or replace its filter and action."""
        described = atom.described(asked.body)
        if atom.local(described) != rule_documents.DESCRIPTION:
            raise InvalidArgument("body", f"must be a {rule_documents.DESCRIPTION}.")
        rule = rule_documents.read(described, asked.resource.rule)
        update = requests.is_update(asked.request)
        changed = await self._manager.change_rule(
            self._subscription(asked), RuleAction.UPDATE if update else RuleAction.CREATE, rule
        )
        found = rule_set.get(rules_of(changed.entity), rule.name, changed.entity.name)
        return requests.entry_response(
            self._rule_entry(asked, changed.entity, found), 200 if update else 201
        )

    async def delete_rule(self, asked: Asked) -> web.Response:
        """Delete a rule."""
        rule = Rule(asked.resource.rule)
        await self._manager.change_rule(self._subscription(asked), RuleAction.DELETE, rule)
        return web.Response()

    def _subscription(self, asked: Asked) -> Entity:
        return self._directory.find(asked.resource.path, EntityKind.SUBSCRIPTION)

    def _rule_entry(self, asked: Asked, subscription: Entity, rule: Rule) -> str:
        assert isinstance(subscription.description, SubscriptionDescription), subscription
        return atom.entry(
            # The SDK for JavaScript takes the names from it.
            asked.entry_url(subscription.name, "Rules", rule.name),
            rule.name,
            rule_documents.written(rule),
            author=self._namespace(),
            created_ms=rule.created_at_ms,
            updated_ms=rule.created_at_ms,
        )

    # The namespace

    async def get_namespace(self, asked: Asked) -> web.Response:
        """Show the namespace."""
        fingerprint = self._directory.fingerprint
        if fingerprint is None:
            raise errors.PartitionUnavailable(
                "the front end has not reached any partition yet. Try again in a moment."
            )
        # Nothing of a namespace that is shown here can be changed.
        created_ms = self._front_end.settings.namespace_created_ms
        facts = {
            "CreatedTime": atom.moment(created_ms),
            "MessagingSKU": fingerprint.tier.value,
            "MessagingUnits": str(fingerprint.partition_count),
            "ModifiedTime": atom.moment(created_ms),
            "Name": atom.text(fingerprint.namespace_name),
            "NamespaceType": "Messaging",
        }
        if fingerprint.tier is not limits.Tier.PREMIUM:
            del facts["MessagingUnits"]
        described = atom.description(
            "NamespaceInfo", "".join(atom.element(name, each) for name, each in facts.items())
        )
        name = fingerprint.namespace_name
        entry = atom.entry(
            asked.url, name, described, author=name, created_ms=created_ms, updated_ms=created_ms
        )
        return requests.entry_response(entry)

    def _namespace(self) -> str:
        fingerprint = self._directory.fingerprint
        return "" if fingerprint is None else fingerprint.namespace_name


def _topic_of(resource: Resource) -> str:
    """A topic's subscriptions are part of it: a key with Manage on it creates and lists them."""
    return resource.entity


GET, PUT, UPDATE, DELETE = "GET", "PUT", "PUT, If-Match", "DELETE"
_ON = Operation
ROUTES: Final[Mapping[tuple[ResourceKind, str], Route]] = {
    (ResourceKind.NAMESPACE, GET): Route(_ON.GET_NAMESPACE, Administration.get_namespace),
    (ResourceKind.QUEUES, GET): Route(
        _ON.LIST_ENTITIES, Administration.list_entities, answer_bytes=FEED_BYTES
    ),
    (ResourceKind.TOPICS, GET): Route(
        _ON.LIST_ENTITIES, Administration.list_entities, answer_bytes=FEED_BYTES
    ),
    (ResourceKind.ENTITY, GET): Route(_ON.GET_ENTITY, Administration.get_entity),
    (ResourceKind.ENTITY, PUT): Route(_ON.CREATE_ENTITY, Administration.put_entity, has_body=True),
    (ResourceKind.ENTITY, UPDATE): Route(
        _ON.UPDATE_ENTITY, Administration.put_entity, has_body=True
    ),
    (ResourceKind.ENTITY, DELETE): Route(_ON.DELETE_ENTITY, Administration.delete),
    (ResourceKind.SUBSCRIPTIONS, GET): Route(
        _ON.GET_ENTITY, Administration.list_entities, _topic_of, FEED_BYTES
    ),
    (ResourceKind.SUBSCRIPTION, GET): Route(_ON.GET_ENTITY, Administration.get_subscription),
    (ResourceKind.SUBSCRIPTION, PUT): Route(
        _ON.UPDATE_ENTITY, Administration.put_subscription, _topic_of, has_body=True
    ),
    (ResourceKind.SUBSCRIPTION, UPDATE): Route(
        _ON.UPDATE_ENTITY, Administration.put_subscription, has_body=True
    ),
    (ResourceKind.SUBSCRIPTION, DELETE): Route(_ON.DELETE_ENTITY, Administration.delete),
    (ResourceKind.RULES, GET): Route(
        _ON.GET_ENTITY, Administration.list_rules, answer_bytes=FEED_BYTES
    ),
    (ResourceKind.RULE, GET): Route(_ON.GET_ENTITY, Administration.get_rule),
    (ResourceKind.RULE, PUT): Route(_ON.UPDATE_ENTITY, Administration.put_rule, has_body=True),
    (ResourceKind.RULE, UPDATE): Route(_ON.UPDATE_ENTITY, Administration.put_rule, has_body=True),
    (ResourceKind.RULE, DELETE): Route(_ON.UPDATE_ENTITY, Administration.delete_rule),
}


def _routed(request: web.Request) -> tuple[Resource, Route]:
    """Return what a request names and does. Raises EntityNotFound, InvalidOperation."""
    resource = resources.parse(request.path)
    if resource is None:
        raise errors.EntityNotFound("there is nothing at this URL.")
    method = UPDATE if requests.is_update(request) else request.method
    route = ROUTES.get((resource.kind, method))
    if route is None:
        instead = " Messages are sent to ENTITY/messages." if request.method == "POST" else ""
        raise errors.InvalidOperation(f"{request.method} is not possible here.{instead}")
    return resource, route
