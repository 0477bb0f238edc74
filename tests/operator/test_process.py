"""What a real operator is put together from."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bendybus.operator.bus.worker_pool import WorkerPool
from bendybus.operator.certificates.webhook_certificates import WebhookCertificates
from bendybus.operator.controllers import process
from bendybus.operator.settings import Settings
from tests.operator.cluster import eventually
from tests.operator.memory_api import MemoryKubernetesApi
from tests.ports import free_port

pytestmark = pytest.mark.integration


@pytest.mark.requirement("R391")
async def test_controllers_and_webhooks_call_partitions_through_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[WorkerPool] = []
    stop, memos = asyncio.Event(), []

    class Pool(WorkerPool):
        def __init__(self, data_bytes: int) -> None:
            assert data_bytes == 128 * 1024 * 1024
            super().__init__(data_bytes)
            made.append(self)

    async def kopf_operator(**facts: Any) -> None:
        memos.append(facts["memo"])
        await stop.wait()

    async def first(_: WebhookCertificates) -> None:
        """Have no webhook configuration to write to."""

    monkeypatch.setattr(process, "RealKubernetesApi", MemoryKubernetesApi)
    monkeypatch.setattr(process, "WorkerPool", Pool)
    monkeypatch.setattr(process.kopf, "operator", kopf_operator)  # type: ignore[attr-defined]
    monkeypatch.setattr(WebhookCertificates, "first", first)
    settings = Settings(
        peering="", metrics_port=free_port(), worker_memory_mb=128, tls_directory=tmp_path
    )
    running = asyncio.create_task(process.run(settings, stop))

    await eventually(lambda: made and all(slot.running for slot in made[0]._shared))
    [memo] = memos
    await eventually(lambda: memo.manager.leading)

    assert memo.manager._shared.workers is made[0]
    assert memo.webhooks._workers is made[0]
    stop.set()
    await running
    assert not made[0]._directory.exists()
