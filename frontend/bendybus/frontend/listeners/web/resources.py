"""What the path of an administration request names.

    /$namespaceinfo
    /$Resources/queues  /$Resources/topics
    /ENTITY
    /TOPIC/subscriptions           /TOPIC/subscriptions/NAME
    /TOPIC/subscriptions/NAME/rules   /TOPIC/subscriptions/NAME/rules/RULE

Names of entities may contain slashes. All of it is compared without case, as Service Bus does.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bendybus.domain import bounds, subscription_name

_RESOURCES: Final = "$resources"
_SUBSCRIPTIONS: Final = "subscriptions"
_RULES: Final = "rules"


class ResourceKind(StrEnum):
    """What a resource is."""

    NAMESPACE = "namespace"
    QUEUES = "queues"
    TOPICS = "topics"
    ENTITY = "entity"
    SUBSCRIPTIONS = "subscriptions"
    SUBSCRIPTION = "subscription"
    RULES = "rules"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource. `entity`: a queue or a topic, as the caller wrote it."""

    kind: ResourceKind
    entity: str = ""
    subscription: str = ""
    rule: str = ""

    @property
    def path(self) -> str:
        """The entity that it is about, as rights name it: of a rule, its subscription."""
        if not self.subscription:
            return self.entity
        return subscription_name.compose(self.entity, self.subscription)


_WHOLE: Final = {
    "$namespaceinfo": Resource(ResourceKind.NAMESPACE),
    f"{_RESOURCES}/queues": Resource(ResourceKind.QUEUES),
    f"{_RESOURCES}/topics": Resource(ResourceKind.TOPICS),
}


def parse(path: str) -> Resource | None:
    """Return what a path names, its percent-encoding decoded; None: nothing that exists.

    Raises InvalidArgument for one that is too long.
    """
    path = path.strip("/")
    bounds.check_path(path)
    whole = _WHOLE.get(path.lower())
    if whole is not None:
        return whole
    segments = path.split("/")
    words = [each.lower() for each in segments]
    if not path or path.startswith("$") or "" in segments:
        return None
    if _SUBSCRIPTIONS not in words[1:]:
        return Resource(ResourceKind.ENTITY, path)
    at = words.index(_SUBSCRIPTIONS, 1)
    topic, below = "/".join(segments[:at]), segments[at + 1 :]
    match below:
        case []:
            return Resource(ResourceKind.SUBSCRIPTIONS, topic)
        case [name]:
            return Resource(ResourceKind.SUBSCRIPTION, topic, name)
        case [name, word] if word.lower() == _RULES:
            return Resource(ResourceKind.RULES, topic, name)
        case [name, word, rule] if word.lower() == _RULES:
            return Resource(ResourceKind.RULE, topic, name, rule)
    return None
