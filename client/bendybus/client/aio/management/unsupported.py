"""Asynchronous administration of topics, subscriptions and rules: not supported yet."""

from typing import Any

from bendybus.client.entities.models import TrueRuleFilter
from bendybus.client.exceptions import not_supported

_EVERYTHING = TrueRuleFilter()


class UnsupportedOperations:
    """Methods that raise NotSupportedError."""

    async def create_topic(
        self,
        topic_name: str,
        *,
        default_message_time_to_live: Any = None,
        max_size_in_megabytes: Any = None,
        requires_duplicate_detection: Any = None,
        duplicate_detection_history_time_window: Any = None,
        enable_batched_operations: Any = None,
        size_in_bytes: Any = None,
        filtering_messages_before_publishing: Any = None,
        authorization_rules: Any = None,
        support_ordering: Any = None,
        auto_delete_on_idle: Any = None,
        enable_partitioning: Any = None,
        enable_express: Any = None,
        user_metadata: Any = None,
        max_message_size_in_kilobytes: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    async def delete_topic(
        self,
        topic_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    async def get_topic(
        self,
        topic_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    async def get_topic_runtime_properties(
        self,
        topic_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    def list_topics(
        self,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    def list_topics_runtime_properties(
        self,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    async def update_topic(
        self,
        topic: Any,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics")

    async def create_subscription(
        self,
        topic_name: str,
        subscription_name: str,
        *,
        lock_duration: Any = None,
        requires_session: Any = None,
        default_message_time_to_live: Any = None,
        dead_lettering_on_message_expiration: Any = None,
        dead_lettering_on_filter_evaluation_exceptions: Any = None,
        max_delivery_count: Any = None,
        enable_batched_operations: Any = None,
        forward_to: Any = None,
        user_metadata: Any = None,
        forward_dead_lettered_messages_to: Any = None,
        auto_delete_on_idle: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    async def delete_subscription(
        self,
        topic_name: str,
        subscription_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    async def get_subscription(
        self,
        topic_name: str,
        subscription_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    async def get_subscription_runtime_properties(
        self,
        topic_name: str,
        subscription_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    def list_subscriptions(
        self,
        topic_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    def list_subscriptions_runtime_properties(
        self,
        topic_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    async def update_subscription(
        self,
        topic_name: str,
        subscription: Any,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("topics and subscriptions")

    async def create_rule(
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

    async def delete_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule_name: str,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")

    async def get_rule(
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

    async def update_rule(
        self,
        topic_name: str,
        subscription_name: str,
        rule: Any,
        **kwargs: Any,
    ) -> Any:
        """Not supported yet."""
        raise not_supported("rules")
