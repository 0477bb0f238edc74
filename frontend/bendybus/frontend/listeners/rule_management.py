"""The calls of bendybus.v1.ManagementService for rules of subscriptions."""

import asyncio
from typing import Any

from bendybus.domain import subscription_name
from bendybus.domain.entity import Entity
from bendybus.domain.entity_kind import EntityKind
from bendybus.domain.filters import rule as rule_domain
from bendybus.domain.filters import rule_set
from bendybus.domain.filters.rule import Rule
from bendybus.domain.filters.rule_set import RuleAction
from bendybus.frontend.core.front_end import FrontEnd
from bendybus.frontend.core.manage import PAGE_DEFAULT, PAGE_MAX, Changed
from bendybus.frontend.listeners.entity_calls import (
    Context,
    EntityCalls,
    outcomes_to_proto,
    rules_of,
)
from bendybus.v1 import management_pb2, management_pb2_grpc
from bendybus.wire import rules, statuses


class RuleManagement(management_pb2_grpc.ManagementServiceServicer):
    """Creates, changes, shows rules. A rule is part of its subscription's catalogue entry."""

    def __init__(self, front_end: FrontEnd) -> None:
        self._directory = front_end.directory
        self._calls = EntityCalls(front_end)

    @statuses.unary
    async def CreateRule(
        self, request: management_pb2.CreateRuleRequest, context: Context
    ) -> management_pb2.CreateRuleResponse:
        """Create a rule on all partitions."""
        changed, rule = await self._with_rule(RuleAction.CREATE, request)
        return management_pb2.CreateRuleResponse(rule=rule, outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def UpdateRule(
        self, request: management_pb2.UpdateRuleRequest, context: Context
    ) -> management_pb2.UpdateRuleResponse:
        """Replace filter and action of a rule on all partitions."""
        changed, rule = await self._with_rule(RuleAction.UPDATE, request)
        return management_pb2.UpdateRuleResponse(rule=rule, outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def DeleteRule(
        self, request: management_pb2.DeleteRuleRequest, context: Context
    ) -> management_pb2.DeleteRuleResponse:
        """Delete a rule on all partitions."""
        name = _subscription(request)
        changed = await self._calls.change_rule(
            name, request, RuleAction.DELETE, Rule(request.name)
        )
        return management_pb2.DeleteRuleResponse(outcomes=outcomes_to_proto(changed))

    @statuses.unary
    async def GetRule(
        self, request: management_pb2.GetRuleRequest, context: Context
    ) -> management_pb2.GetRuleResponse:
        """Show a rule."""
        subscription = self._find(request)
        found = rule_set.get(rules_of(subscription), request.name, subscription.name)
        return management_pb2.GetRuleResponse(rule=rules.to_proto(found))

    @statuses.unary
    async def ListRules(
        self, request: management_pb2.ListRulesRequest, context: Context
    ) -> management_pb2.ListRulesResponse:
        """Show rules by name, a page at a time."""
        by_key = {each.name.lower(): each for each in rules_of(self._find(request))}
        keys = sorted(key for key in by_key if key > request.page_token)
        page = keys[: min(request.page_size or PAGE_DEFAULT, PAGE_MAX)]
        return management_pb2.ListRulesResponse(
            rules=[rules.to_proto(by_key[key]) for key in page],
            next_page_token=page[-1] if len(keys) > len(page) else "",
        )

    async def _with_rule(
        self, action: RuleAction, request: Any
    ) -> tuple[Changed, management_pb2.Rule]:
        """Create or update a rule; return it as it is then."""
        subscription, rule = self._find(request), rules.from_proto(request.rule)
        # Parsing takes up to a second for the longest texts: not on the event loop. The registrar
        # checks it again, on the thread of its partition; what is refused here never gets there.
        await asyncio.to_thread(rule_domain.check, rule, partitioned=subscription.partitioned)
        changed = await self._calls.change_rule(subscription.name, request, action, rule)
        found = rule_set.get(rules_of(changed.entity), rule.name, subscription.name)
        return changed, rules.to_proto(found)

    def _find(self, request: Any) -> Entity:
        return self._directory.find(_subscription(request), EntityKind.SUBSCRIPTION)


def _subscription(request: Any) -> str:
    """Return the name as an entity of the subscription that a request is about."""
    return subscription_name.compose(request.topic_name, request.subscription_name)
