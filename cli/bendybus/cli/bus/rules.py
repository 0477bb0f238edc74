"""Rules of subscriptions of a bus, as commands use them. Raises BusError."""

from typing import Any, Final

from bendybus.cli.bus.management import Management
from bendybus.domain.filters.rule import Rule
from bendybus.v1 import management_pb2 as pb
from bendybus.wire import rules

_PAGE: Final = 1_000
_CLIENT: Final = pb.ENTITY_ORIGIN_CLIENT


def listed(bus: Management, topic_name: str, subscription_name: str) -> list[pb.Rule]:
    """Return the rules of a subscription, by name. Raises EntityNotFound."""
    found: list[pb.Rule] = []
    request = pb.ListRulesRequest(
        topic_name=topic_name, subscription_name=subscription_name, page_size=_PAGE
    )
    while True:
        page = bus.call(request)
        found.extend(page.rules)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


def find(bus: Management, topic_name: str, subscription_name: str, name: str) -> pb.Rule:
    """Return one rule. Raises EntityNotFound."""
    request = pb.GetRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name
    )
    found: pb.Rule = bus.call(request).rule
    return found


def create(bus: Management, topic_name: str, subscription_name: str, wanted: Rule) -> Any:
    """Make a rule."""
    request = pb.CreateRuleRequest(
        topic_name=topic_name,
        subscription_name=subscription_name,
        rule=rules.to_proto(wanted),
        origin=_CLIENT,
    )
    return bus.call(request)


def delete(bus: Management, topic_name: str, subscription_name: str, name: str) -> Any:
    """Delete a rule."""
    request = pb.DeleteRuleRequest(
        topic_name=topic_name, subscription_name=subscription_name, name=name, origin=_CLIENT
    )
    return bus.call(request)
