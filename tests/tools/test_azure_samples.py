"""Samples of azure-servicebus: what is changed in them, which are run, and what is reported."""

import re

import pytest

from bendybus.client import ServiceBusReceiver, ServiceBusSender, aio
from tests.test_tidy import ROOT
from tools import azure_samples
from tools.azure_samples import Outcome

pytestmark = pytest.mark.requirement("R376")
STRING = "Endpoint=sb://127.0.0.1:7480;SharedAccessKeyName=n;SharedAccessKey=k"


def test_only_imports_are_rewritten() -> None:
    text = (
        "from azure.servicebus.aio import ServiceBusClient\n"
        "    import azure.identity\n"
        "from azure.core.credentials import AzureSasCredential\n"
        'said = "from azure.servicebus"\n'
    )

    assert azure_samples.rewritten(text).splitlines() == [
        "from bendybus.client.aio import ServiceBusClient",
        "    import local_identity",
        "from azure.core.credentials import AzureSasCredential",
        'said = "from azure.servicebus"',
    ]


def test_what_is_not_run_has_a_reason_for_both_surfaces() -> None:
    assert azure_samples.reason("proxy") == azure_samples.reason("proxy_async") != ""
    assert azure_samples.reason("send_queue_async") == ""


def test_the_table_names_what_failed_and_counts() -> None:
    told = azure_samples.table(
        [Outcome("a", True, "", 3.2), Outcome("long_one", False, "why", 1.0), Outcome("c", None)]
    )

    assert told.splitlines() == [
        "SAMPLE    RESULT   TOOK  NOTE",
        "a         passed   3 s",
        "long_one  FAILED   1 s   why",
        "c         not run",
        "1 passed, 1 failed, 1 not run or in part",
    ]


def test_the_samples_are_of_the_version_that_is_compared_with() -> None:
    def pinned(name: str) -> list[str]:
        text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
        return re.findall(r"^azure-servicebus==(\S+)", text, re.MULTILINE)

    text = (ROOT / "requirements" / "azure-samples.txt").read_text(encoding="utf-8")
    [own_hash] = re.findall(r"sha256:(\w{64})", text)

    assert pinned("azure-samples.txt") == pinned("dev.txt")
    assert own_hash in (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")


async def test_senders_and_receivers_are_made_from_a_connection_string_as_samples_do() -> None:
    with (
        ServiceBusSender._from_connection_string(STRING, queue_name="q") as sender,
        ServiceBusReceiver._from_connection_string(f"{STRING};EntityPath=other") as receiver,
    ):
        assert (sender.entity_name, receiver.entity_name) == ("q", "other")
    async with aio.ServiceBusSender._from_connection_string(STRING, topic_name="t") as later:
        assert later.fully_qualified_namespace == "127.0.0.1:7480"
