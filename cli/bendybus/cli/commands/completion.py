"""Completion of names in a shell. Fails silently and quickly."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from bendybus.cli.bus import bus_choice, management
from bendybus.cli.bus.bus_choice import Choice
from bendybus.cli.bus.cluster import ClusterChoice
from bendybus.cli.bus.management import Management
from bendybus.cli.errors import CliError
from bendybus.domain import subscription_name
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.errors import BusError

_DEADLINE_S: Final = 2.0
_KINDS: Final = ("queues", "topics", "subscriptions", "rules")
Names = Callable[[Management], Iterable[str]]


def queue_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the queues of the bus that the command line names, as far as it is typed."""
    return _found(ctx, incomplete, _queues)


def topic_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the topics."""
    return _found(ctx, incomplete, _topics)


def destination_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what messages are sent to: queues and topics."""
    return _found(ctx, incomplete, lambda bus: [*_queues(bus), *_topics(bus)])


def source_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return where messages are received from: queues, and TOPIC/Subscriptions/NAME."""

    def sources(bus: Management) -> list[str]:
        within = [
            subscription_name.compose(topic, name)
            for topic in _topics(bus)
            # Of the topics that the word may still become, which is a call for each.
            if _may_become(incomplete, topic)
            for name in _names(bus.subscriptions_of_listed(topic, runtime=False))
        ]
        return [*_queues(bus), *within]

    return _found(ctx, incomplete, sources)


def subscription_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the subscriptions of the topic that is typed already."""
    topic = ctx.params.get("topic") or ctx.params.get("name") or ""
    return _found(ctx, incomplete, lambda bus: _subscriptions(bus, topic))


def rule_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the rules of the subscription that is typed already."""
    topic, name = ctx.params.get("topic") or "", ctx.params.get("subscription") or ""
    return _found(
        ctx, incomplete, lambda bus: [each.name for each in management.list_rules(bus, topic, name)]
    )


def kinds_or_a_queue(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what `get` takes first."""
    words = [word for word in _KINDS if word.startswith(incomplete)]
    return words + queue_names(ctx, incomplete)


def names_of_a_kind(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what `get` takes behind a kind."""
    what = str(ctx.params.get("what") or "").lower()
    return (queue_names if what.startswith(("q", "bq")) else topic_names)(ctx, incomplete)


def context_names(incomplete: str) -> list[str]:
    """Return the named buses of this user."""
    try:
        names = sorted(bus_choice.read_contexts(os.environ).named)
    except CliError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def _queues(bus: Management) -> list[str]:
    return _names(bus.listed(EntityKind.QUEUE, runtime=False))


def _topics(bus: Management) -> list[str]:
    return _names(bus.listed(EntityKind.TOPIC, runtime=False))


def _subscriptions(bus: Management, topic: str) -> list[str]:
    return _names(bus.listed(EntityKind.SUBSCRIPTION, topic, runtime=False))


def _names(found: Iterable[Any]) -> list[str]:
    return [each.name for each in found]


def _may_become(incomplete: str, topic: str) -> bool:
    typed, name = incomplete.lower(), f"{topic.lower()}/"
    return typed.startswith(name) or name.startswith(typed)


def _found(ctx: typer.Context, incomplete: str, names: Names) -> list[str]:
    try:
        with (
            bus_choice.target(_choice(ctx.find_root().params)) as target,
            Management(
                target.connection_string, ca_file=target.ca_file, deadline_s=_DEADLINE_S
            ) as bus,
        ):
            found = list(names(bus))
    except (BusError, CliError, OSError):
        return []
    return [name for name in found if name.lower().startswith(incomplete.lower())]


def _choice(options: Mapping[str, Any]) -> Choice:
    data, file = options.get("data"), options.get("ca_file")
    named = [str(options.get(name) or "") for name in ("kube_context", "namespace", "bus")]
    return bus_choice.with_context(
        Choice(
            options.get("connection_string") or "",
            Path(data).absolute() if data else None,
            dict(os.environ),
            Path(file) if file else None,
            ClusterChoice(*named) if options.get("kube") or any(named) else None,
        )
    )
