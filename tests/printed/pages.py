"""Which pages are run, with what, and which are only parsed, and why."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.test_tidy import ROOT

CLUSTER: Final = "needs a cluster: `make e2e` does what it prints"
SPARK: Final = "needs Java and Spark: `make test-spark` runs its jobs, and the tutorial's program"
SDKS: Final = "needs Node, Java or Go: tests/sdks/test_pages.py runs its program"
JMS: Final = "needs Java, Qpid JMS and port 5671, which no test has"
DOCKER: Final = "needs Docker: tests/integration/test_emulator.py runs its services as processes"
# By page, or by page and heading.
PARSED: Final[dict[str, str | dict[str, str]]] = {
    "README.md": {"Data pipelines": SPARK, "On Kubernetes": CLUSTER},
    "docs/how-to/back-up-and-restore.md": CLUSTER,
    "docs/how-to/declare-topics.md": CLUSTER,
    "docs/how-to/install-on-kubernetes.md": CLUSTER,
    "docs/how-to/replace-the-emulator.md": DOCKER,
    "docs/how-to/retained-data.md": CLUSTER,
    "docs/how-to/run-data-pipelines.md": SPARK,
    "docs/how-to/run-pipelines-on-kubernetes.md": CLUSTER,
    "docs/how-to/scale-with-keda.md": CLUSTER,
    "docs/how-to/test-on-a-cluster.md": CLUSTER,
    "docs/how-to/troubleshoot-on-kubernetes.md": CLUSTER,
    "docs/how-to/upgrade.md": CLUSTER,
    "docs/how-to/use-a-bus-on-a-cluster.md": CLUSTER,
    "docs/how-to/use-the-azure-sdk-for-dotnet.md": SDKS,
    "docs/how-to/use-the-azure-sdk-for-go.md": SDKS,
    "docs/how-to/use-the-azure-sdk-for-java.md": SDKS,
    "docs/how-to/use-the-azure-sdk-for-javascript.md": SDKS,
    "docs/how-to/use-jms.md": JMS,
    "docs/tutorial/flights-on-spark.md": SPARK,
}
# What a line begins with that is not run, and why.
NOT_RUN: Final = {
    "make ": "runs for minutes; the target exists (tests/test_docs.py)",
    ". .venv/bin/activate": "the environment of the test takes its place",
    "bendybus up -f examples/flights.yaml": "it runs already, started by these words",
    "bendybus up --config examples/azure/": "tests/integration/test_files_that_run.py runs such",
    "az servicebus ": "needs Azure: tests/crds/test_az_output.py has what it prints",
    "terraform show ": "needs Terraform: tests/crds/test_terraform_files.py has what it prints",
    "bendybus up --queue orders": "one runs already, and has this queue",
}
# Waits that a reader has time for.
SHORTER: Final = {"max_wait_time=5": "max_wait_time=1", "max_wait_time=30": "max_wait_time=2"}
# On a terminal these ask; without one they want an answer on the command line.
ASKS: Final = ("bendybus purge ",)


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is run. Its blocks for a shell and those in Python are two scenarios.

    `python`: what the page says the reader has, before its first block in Python. `before`: what
    must have happened before a block whose text has these words. `said`: in the output.
    """

    path: str
    python: str = ""
    before: dict[str, str] = field(default_factory=dict)
    said: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Return the page."""
        return ROOT / self.path


_DEAD: Final = """
def dead(queue, count=1, **options):
    if queue not in [each.name for each in administration.list_queues()]:
        administration.create_queue(queue, enable_partitioning=True)
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("late", partition_key="k")] * count)
    with client.get_queue_receiver(queue, max_wait_time=5) as receiver:
        left = count
        while left:
            for message in receiver.receive_messages(left):
                receiver.dead_letter_message(message, reason="TTLExpiredException")
                left -= 1
"""
COMMON: Final = """
from bendybus.client import *
from bendybus.client.management import *

connection_string = conn_str = {connection_string!r}
client = ServiceBusClient.from_connection_string(connection_string)
administration = ServiceBusAdministrationClient.from_connection_string(connection_string)
"""
_AWAY: Final = """
administration.create_queue("orders", enable_partitioning=True)
administration.create_queue("shop-a", enable_partitioning=True, forward_to="orders")
administration.create_queue("audit-now")
administration.delete_queue("audit-now")
"""
PAGES: Final = (
    Page("README.md", said=("hello",)),
    Page(
        "docs/how-to/dead-letters.md",
        before={
            "bendybus deadletter list orders": _DEAD + "dead('orders', 2)",
            "--number": _DEAD + "dead('orders')",
            "--to audit": _DEAD + "dead('orders')",
            "sub_queue=": _DEAD + "dead('orders')",
        },
        said=("TTLExpiredException",),
    ),
    Page(
        "docs/how-to/forward-messages.md",
        before={"bendybus deadletter list": "", "sub_queue=": _AWAY},
    ),
    Page("docs/how-to/move-from-azure-service-bus.md"),
    Page(
        "docs/how-to/sessions.md",
        before={
            "AutoLockRenewer": """
administration.create_queue("orders", enable_partitioning=True, requires_session=True)
with client.get_queue_sender("orders") as sender:
    for each in ("ada", "bob"):
        sender.send_messages(ServiceBusMessage("1", session_id=each))
"""
        },
        said=("bob None", "first"),
    ),
    Page(
        "docs/how-to/survive-an-outage.md",
        python="""
administration.create_queue("orders", enable_partitioning=True)
sender, body, customer = client.get_queue_sender("orders"), "b", "c"
keep_for_later = print
""",
        said=("Limited",),
    ),
    Page("docs/how-to/use-templates.md", said=("kind: Subscription", "azurerm_servicebus_queue")),
    Page("docs/how-to/topics.md", said=("UA is late",)),
    Page(
        "docs/how-to/trace-with-opentelemetry.md",
        before={
            "extract(": """
administration.create_queue("orders")
with client.get_queue_sender("orders") as sender:
    sender.send_messages(ServiceBusMessage("b"))
receiver = client.get_queue_receiver("orders", max_wait_time=5)
message = receiver.receive_messages()[0]
print(message.decoded_properties["traceparent"])
"""
        },
        said=("00-",),
    ),
    Page(
        "docs/how-to/transactions.md",
        python="""
for name in ("orders", "invoices"):
    administration.create_queue(name)
administration.create_topic("news", enable_partitioning=True)
sender, invoices = client.get_queue_sender("orders"), client.get_queue_sender("invoices")
news = client.get_topic_sender("news")
sender.send_messages([ServiceBusMessage("order")] * 2)
receiver = client.get_queue_receiver("orders", max_wait_time=5)
order = receiver.receive_messages(1)[0]
""",
        before={"invoices.send_messages": "order = receiver.receive_messages(1)[0]"},
    ),
    Page(
        "docs/how-to/use-http.md",
        before={"-d 'order 1'": "administration.create_queue('orders')"},
        said=("order 1", 'Region: "eu"'),
    ),
    Page(
        "docs/how-to/use-the-azure-sdk.md",
        python='administration.create_queue("orders")\n',
        said=("order 2",),
    ),
)
