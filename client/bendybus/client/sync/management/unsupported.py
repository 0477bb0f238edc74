# Generated from aio/management/unsupported.py by `make sync`: edit that file.
"""Synchronous administration of rules: not supported yet."""

from typing import Any

from bendybus.client.entities.models import TrueRuleFilter
from bendybus.client.exceptions import not_supported

_EVERYTHING = TrueRuleFilter()


class UnsupportedOperations:
    """Methods that raise NotSupportedError."""

    def create_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        *,
        filter: Any = _EVERYTHING,
        action: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")

    def delete_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")

    def get_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")

    def list_rules(
        self,
        topic_name: str,
        subscription_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")

    def update_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule: Any,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")
