"""The index of everything that Kopf calls; each body only hands over.

No handler here puts a finalizer on anything (`on.event`, `on.validate` do not), and none stores
progress in objects: what is to be done is decided by the keepers from what there is.
Admission handlers have explicit ids: these are the paths in the webhook configuration, and Kopf
allows whatever comes to a path that it does not know.
"""

from typing import Any

import kopf

from bendybus.crds.manifest import GROUP, VERSION


@kopf.on.event(GROUP, VERSION, "busnamespaces")
async def bus_changed(event: Any, memo: Any, **_: Any) -> None:
    """Hand a BusNamespace's event to the office."""
    memo.office.bus_event(event["type"], dict(event["object"]))


@kopf.on.event(GROUP, VERSION, "queues")
async def queue_changed(event: Any, memo: Any, **_: Any) -> None:
    """Hand a Queue's event to the office."""
    memo.office.queue_event(event["type"], dict(event["object"]))


@kopf.on.validate(GROUP, VERSION, "busnamespaces", id="busnamespaces")
async def admit_bus(memo: Any, body: Any, warnings: list[str], **facts: Any) -> None:
    """Judge a change of a BusNamespace."""
    old = _dict(facts["old"])
    warnings.extend(await memo.admitting.bus(facts["operation"], dict(body), old))


@kopf.on.validate(GROUP, VERSION, "queues", id="queues")
async def admit_queue(memo: Any, body: Any, warnings: list[str], **facts: Any) -> None:
    """Judge a change of a Queue."""
    old = _dict(facts["old"])
    warnings.extend(await memo.admitting.queue(facts["operation"], dict(body), old))


def _dict(body: Any) -> dict[str, Any] | None:
    return dict(body) if body else None


@kopf.on.probe(id="leading")
async def show_leading(memo: Any, **_: Any) -> bool:
    """Say whether this replica acts."""
    return bool(memo.office.leading)


@kopf.on.cleanup(id="leave")
async def leave(memo: Any, **_: Any) -> None:
    """End what acts beside Kopf: it would wait 5 s for that, in vain."""
    await memo.leave()
