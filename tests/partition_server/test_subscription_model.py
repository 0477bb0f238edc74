"""A subscription with sessions against the model of a queue with sessions.

What is published without a session is beside it: a dead letter.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from bendybus.partition_server.state.answers import EntityCounts
from bendybus.partition_server.state.commands import EntityRef
from tests.partition_server import publishing
from tests.partition_server.driver import Driver, fingerprint
from tests.partition_server.memory_store import MemoryStore
from tests.partition_server.publishing import head, publish
from tests.partition_server.session_driver import Sessions
from tests.partition_server.test_session_machine import NAMES, SessionMachine
from tests.partition_server.topic_changes import subscription, topic


class SubscriptionSessions(Sessions):
    """The session-aware subscription `a` of the topic `news`."""

    def create(self, changes: dict[str, Any]) -> None:
        """Create it."""
        topic(self.driver)
        changes["dead_lettering_on_filter_evaluation_exceptions"] = False
        subscription(self.driver, changes={"requires_session": True, **changes})

    def ref(self) -> EntityRef:
        """Return a reference to the subscription."""
        return publishing.ref(self.driver, "a")

    def counts(self) -> EntityCounts:
        """Return what the subscription holds."""
        return self.driver.counts_of("news/Subscriptions/a")

    def send(self, *messages: tuple[str, bytes], **columns: Any) -> list[Any]:
        """Publish to the topic."""
        for session_id, payload in messages:
            publish(self.driver, head(), body=payload, session_ids=[session_id], **columns)
        return []


class SubscriptionMachine(SessionMachine):
    """Runs a subscription with sessions beside the model of a queue with sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(MemoryStore(fingerprint()))
        self.without_session = 0

    def make_sessions(self) -> Sessions:
        """Return the sessions of a subscription."""
        return SubscriptionSessions(self.driver, max_delivery_count=1_000)

    @rule(name=NAMES, others=st.sampled_from([None, "", "a", "b"]), lost=st.booleans())
    def transact(self, name: str, others: str | None, lost: bool) -> None:
        """Settle in a transaction. What it would send is for another entity, the topic."""
        self._transact(name, others, ["counted", "done"], 0, lost)

    @rule()
    def publish_without_session(self) -> None:
        """Publish what no session can have: a dead letter, and not lost."""
        publish(self.driver, head(), body=b"none")
        self.without_session += 1

    @invariant()
    def what_has_no_session_is_a_dead_letter(self) -> None:
        """Compare."""
        if hasattr(self, "left"):
            assert self.sessions.counts().dead_letter == self.without_session


TestSubscriptionModel = SubscriptionMachine.TestCase
TestSubscriptionModel.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
