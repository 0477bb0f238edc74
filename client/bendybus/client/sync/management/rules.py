# Generated from aio/management/rules.py by `make sync`: edit that file.
"""Synchronous administration of rules of subscriptions."""

from collections.abc import Mapping
from typing import Any

from bendybus.client import arguments
from bendybus.client.core import rules
from bendybus.client.entities import requests
from bendybus.client.entities.models import (
    CorrelationRuleFilter,
    RuleProperties,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)
from bendybus.client.sync.management.management_calls import ManagementCalls
from bendybus.client.sync.management.paging import ItemPaged
from bendybus.v1 import management_pb2

_EVERYTHING = TrueRuleFilter()


class RuleOperations(ManagementCalls):
    """Creates, updates, lists and deletes rules."""

    def create_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        *,
        filter: CorrelationRuleFilter | SqlRuleFilter = _EVERYTHING,
        action: SqlRuleAction | None = None,
        **kwargs: Any,
    ) -> RuleProperties:
        """Create a rule; return it as it is on every partition.

        `topic_name`, `subscription_name`: the subscription. `rule_name`: its name within the
        subscription. `filter`: which messages it takes; TrueRuleFilter, FalseRuleFilter,
        CorrelationRuleFilter or SqlRuleFilter. `action`: how its copy of a message differs.
        A subscription has the rule `$Default`, which takes every message, until it is deleted.
        Raises ResourceExistsError, ResourceNotFoundError without the subscription, and
        HttpResponseError with line and column of what does not parse.
        """
        rule = rules.to_rule(rule_name, filter, action)
        fields = requests.rule_of(topic_name, subscription_name, rule=rule, origin=requests.CLIENT)
        request = management_pb2.CreateRuleRequest(**fields)
        response = self._ask(request, kwargs)
        return rules.to_properties(response.rule)

    def get_rule(
        self, topic_name: str, subscription_name: str, rule_name: str, **kwargs: Any
    ) -> RuleProperties:
        """Return the rule `rule_name` of a subscription. Raises ResourceNotFoundError.

        `topic_name`, `subscription_name`: the subscription.
        """
        name = arguments.text("rule_name", rule_name)
        fields = requests.rule_of(topic_name, subscription_name, name=name)
        request = management_pb2.GetRuleRequest(**fields)
        response = self._ask(request, kwargs)
        return rules.to_properties(response.rule)

    def update_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule: RuleProperties | Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        """Replace filter and action of the rule that has the name of `rule`.

        `topic_name`, `subscription_name`: the subscription. Raises as `create_rule`, and
        ResourceNotFoundError without the rule.
        """
        overrides: dict[str, Any] = {
            name: kwargs.pop(name) for name in ("filter", "action") if name in kwargs
        }
        request = rules.update_of(topic_name, subscription_name, rule, overrides)
        self._ask(request, kwargs)

    def delete_rule(
        self, topic_name: str, subscription_name: str, rule_name: str, **kwargs: Any
    ) -> None:
        """Delete the rule `rule_name` of a subscription. Raises ResourceNotFoundError.

        `topic_name`, `subscription_name`: the subscription. One without rules gets no messages.
        """
        name = arguments.text("rule_name", rule_name)
        fields = requests.rule_of(topic_name, subscription_name, name=name, origin=requests.CLIENT)
        request = management_pb2.DeleteRuleRequest(**fields)
        self._ask(request, kwargs)

    def list_rules(
        self, topic_name: str, subscription_name: str, **kwargs: Any
    ) -> ItemPaged[RuleProperties]:
        """Return an iterator over the rules of a subscription; its `by_page()` returns pages.

        `topic_name`, `subscription_name`: the subscription. Raises ResourceNotFoundError.
        """
        given = requests.rule_of(topic_name, subscription_name)
        request = management_pb2.ListRulesRequest(**given)
        return self._list(request, rules.to_properties, "rules", kwargs)
