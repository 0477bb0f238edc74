"""The index of everything that Kopf calls; each handler only delegates.

No handler sets a finalizer (`on.event` and `on.validate` do not), and none stores progress in
objects: the controllers decide from the current state. Admission handlers have explicit ids: these
are the paths in the webhook configuration, and Kopf admits any request to an unknown path.
"""

from typing import Any

import kopf

from bendybus.crds.manifest import GROUP, VERSION


@kopf.on.event(GROUP, VERSION, "busnamespaces")
async def bus_changed(event: Any, memo: Any, **_: Any) -> None:
    """Hand a BusNamespace's event to the controller manager."""
    memo.manager.bus_event(event["type"], dict(event["object"]))


@kopf.on.event(GROUP, VERSION, "queues")
@kopf.on.event(GROUP, VERSION, "topics")
@kopf.on.event(GROUP, VERSION, "subscriptions")
async def entity_changed(event: Any, memo: Any, **_: Any) -> None:
    """Hand the event of an entity's manifest to the controller manager."""
    memo.manager.entity_event(event["type"], dict(event["object"]))


@kopf.on.validate(GROUP, VERSION, "busnamespaces", id="busnamespaces")
async def admit_bus(memo: Any, body: Any, warnings: list[str], **facts: Any) -> None:
    """Validate a change of a BusNamespace."""
    warnings.extend(await memo.webhooks.bus(facts["operation"], dict(body)))


@kopf.on.validate(GROUP, VERSION, "queues", id="queues")
@kopf.on.validate(GROUP, VERSION, "topics", id="topics")
@kopf.on.validate(GROUP, VERSION, "subscriptions", id="subscriptions")
async def admit_entity(memo: Any, body: Any, warnings: list[str], **facts: Any) -> None:
    """Validate a change of an entity's manifest."""
    warnings.extend(await memo.webhooks.entity(facts["operation"], dict(body)))


@kopf.on.probe(id="leading")
async def show_leading(memo: Any, **_: Any) -> bool:
    """Report whether this replica leads."""
    return bool(memo.manager.leading)


@kopf.on.cleanup(id="leave")
async def leave(memo: Any, **_: Any) -> None:
    """Stop the tasks beside Kopf's; Kopf would wait 5 s for them in vain."""
    await memo.leave()
