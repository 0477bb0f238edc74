"""Manifests that are refused, and the words of the API server's or a webhook's refusal.

The end-to-end tests apply them to a real cluster; `test_bad_manifests.py` checks without one that
the rules of the models still refuse each.
"""

from typing import Any, Final

Spec = dict[str, Any]

# The spec without namespaceRef → what the refusal contains.
QUEUES: Final[tuple[tuple[Spec, str], ...]] = (
    ({"lockDuration": "PT10M"}, "lockDuration: must be PT5S to PT5M"),
    ({"lockDuration": "5 minutes"}, "spec.lockDuration"),
    ({"maxSizeInMegabytes": 1500}, "maxSizeInMegabytes: must be one of 1024"),
    ({"maxMessageSizeInKilobytes": 2048}, "maxMessageSizeInKilobytes: can be set only in Premium"),
    ({"maxDeliveryCount": 0}, "spec.maxDeliveryCount"),
    ({"autoDeleteOnIdle": "PT1M"}, "autoDeleteOnIdle: must be at least PT5M"),
    ({"forwardTo": "x", "requiresSession": True}, "that requires sessions cannot forward"),
    ({"status": "Sleeping"}, "spec.status"),
    ({"entityName": "a b"}, "spec.entityName"),
    ({"entityName": "a/.."}, "spec.entityName"),
    ({"entityName": "a//b"}, "entityName must not contain // or /Subscriptions/"),
    ({"entityName": "a/SubScriptions/b"}, "entityName must not contain // or /Subscriptions/"),
    ({"lockDurations": "PT1M"}, 'unknown field "spec.lockDurations"'),
)
# The kind, the spec without namespaceRef → what the refusal contains.
TOPICS_AND_SUBSCRIPTIONS: Final[tuple[tuple[str, Spec, str], ...]] = (
    ("Topic", {"lockDuration": "PT1M"}, 'unknown field "spec.lockDuration"'),
    ("Topic", {"status": "ReceiveDisabled"}, "spec.status"),
    ("Topic", {"entityName": "a/Subscriptions"}, "must not contain // or /Subscriptions/"),
    ("Topic", {"autoDeleteOnIdle": "PT1M"}, "autoDeleteOnIdle: must be at least PT5M"),
    ("Subscription", {}, "spec.topicName"),
    ("Subscription", {"topicName": "a//b"}, "topicName must not contain // or /Subscriptions/"),
    ("Subscription", {"topicName": "a", "entityName": "-b"}, "spec.entityName"),
    ("Subscription", {"topicName": "a", "lockDuration": "PT9M"}, "lockDuration: must be PT5S"),
    (
        "Subscription",
        {"topicName": "a", "rules": [{"name": "r", "sqlFilter": {"sqlExpression": "x >"}}]},
        "spec.rules[0].filter.sqlExpression",
    ),
    ("Subscription", {"topicName": "a", "rules": [{"name": "r r"}]}, "spec.rules[0].name"),
)
