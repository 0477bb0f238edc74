"""Administration of queues through both surfaces."""

from datetime import timedelta
from typing import Any

import grpc
import pytest

from bendybus.client import ServiceBusMessage, aio, exceptions, management
from bendybus.client.aio import management as aio_management
from bendybus.client.exceptions import (
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
    ServiceBusError,
    ServiceResponseError,
)
from bendybus.client.management import (
    EntityAvailabilityStatus,
    EntityStatus,
    MessagingSku,
    QueueProperties,
)
from bendybus.domain import limits
from tests.client.fake_front_end import FakeFrontEnd
from tests.client.fake_management_service import ManagementService


async def every(found: Any) -> list[Any]:
    """Return what either kind of iterator yields."""
    if hasattr(found, "__aiter__"):
        return [one async for one in found]
    return list(found)


@pytest.fixture
def lossy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the front end starts: it does each change, and its first answers are lost."""
    for name in ("CreateQueue", "DeleteQueue", "UpdateQueue"):
        work, left = getattr(ManagementService, name), [request.param]

        async def lose(
            self: Any, request: Any, context: Any, work: Any = work, left: Any = left
        ) -> Any:
            answer = await work(self, request, context)
            if left[0]:
                left[0] -= 1
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            return answer

        monkeypatch.setattr(ManagementService, name, lose)


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("lossy", [1], indirect=True)
async def test_a_change_whose_answer_was_lost_succeeds_by_its_repeat(administration: Any) -> None:
    await administration.create_queue("orders")
    await administration.update_queue(await administration.get_queue("orders"))
    await administration.delete_queue("orders")

    with pytest.raises(ResourceExistsError):
        await administration.create_queue("q")
    with pytest.raises(ResourceNotFoundError):
        await administration.delete_queue("orders")


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize("lossy", [10], indirect=True)
async def test_a_change_that_is_never_answered_is_of_unknown_outcome(administration: Any) -> None:
    with pytest.raises(ServiceResponseError):
        await administration.create_queue("orders")


async def test_a_queue_is_made_with_its_properties(administration: Any) -> None:
    made = await administration.create_queue(
        "orders",
        lock_duration=timedelta(seconds=30),
        default_message_time_to_live="P7D",
        max_delivery_count=3,
        enable_partitioning=True,
        user_metadata="note",
    )

    found = await administration.get_queue("orders")

    assert isinstance(made, QueueProperties)
    for queue in (made, found):
        assert queue.name == "orders"
        assert queue.lock_duration == timedelta(seconds=30)
        assert queue.default_message_time_to_live == timedelta(days=7)
        assert queue.max_delivery_count == 3
        assert queue.enable_partitioning is True
        assert queue.user_metadata == "note"
        assert queue.status is EntityStatus.ACTIVE
        assert queue["max_size_in_megabytes"] == limits.QUEUE_SIZE_MB_DEFAULT
        assert queue.auto_delete_on_idle == timedelta(milliseconds=limits.TIME_TO_LIVE_MS_MAX)


async def test_a_queue_is_updated_from_its_properties(administration: Any) -> None:
    queue = await administration.create_queue("orders")
    queue.max_delivery_count = 5
    queue.status = EntityStatus.SEND_DISABLED

    await administration.update_queue(queue, lock_duration="PT2M")
    found = await administration.get_queue("orders")

    assert found.max_delivery_count == 5
    assert found.status is EntityStatus.SEND_DISABLED
    assert found.lock_duration == timedelta(minutes=2)
    assert found.auto_delete_on_idle == queue.auto_delete_on_idle


async def test_a_misspelled_property_is_refused_and_options_of_azure_core_are_taken(
    administration: Any,
) -> None:
    queue = await administration.create_queue("orders", logging_enable=True, timeout=30)

    with pytest.raises(TypeError, match="'max_delivery_cnt' is neither a property of a queue"):
        await administration.create_queue("other", max_delivery_cnt=3)
    with pytest.raises(TypeError, match="'lock_durations' is neither a property of a queue"):
        await administration.update_queue(queue, lock_durations="PT2M", headers={})


async def test_names_are_taken_and_missing(administration: Any) -> None:
    await administration.create_queue("orders")

    with pytest.raises(ResourceExistsError, match="orders") as raised:
        await administration.create_queue("orders")
    with pytest.raises(ResourceNotFoundError, match="nowhere"):
        await administration.get_queue("nowhere")
    with pytest.raises(ResourceNotFoundError):
        await administration.update_queue({"name": "nowhere", "max_delivery_count": 2})
    await administration.delete_queue("orders")
    with pytest.raises(ResourceNotFoundError):
        await administration.delete_queue("orders")

    assert isinstance(raised.value, HttpResponseError)
    assert not isinstance(raised.value, ServiceBusError)
    assert (raised.value.status_code, raised.value.reason) == (409, "Conflict")
    assert raised.value.error_code == "ENTITY_ALREADY_EXISTS"


async def test_queues_are_listed_over_pages(administration: Any, fake: FakeFrontEnd) -> None:
    for index in range(150):
        fake.add_queue(f"many-{index:03}")

    names = [queue.name for queue in await every(administration.target.list_queues())]
    sizes = [
        queue.size_in_bytes
        for queue in await every(administration.target.list_queues_runtime_properties())
    ]

    assert len(names) == len(set(names)) == 151
    assert len(sizes) == 151


async def test_runtime_properties_count(
    administration: Any, fake: FakeFrontEnd, asynchronous: aio.ServiceBusClient
) -> None:
    await asynchronous.get_queue_sender("q").send_messages([ServiceBusMessage("x")] * 3)

    found = await administration.get_queue_runtime_properties("q")

    assert found.name == "q"
    assert found.active_message_count == found.total_message_count == 3
    assert found.size_in_bytes > 0
    assert found.availability_status is EntityAvailabilityStatus.AVAILABLE
    assert found.created_at_utc.year == 2023
    assert found.accessed_at_utc is None


async def test_the_namespace_is_shown(administration: Any) -> None:
    found = await administration.get_namespace_properties()

    assert found.name == "test"
    assert found.messaging_sku is MessagingSku.STANDARD
    assert found["partition_count"] == 16


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"lock_duration": "5 minutes"}, "lock_duration"),
        ({"default_message_time_to_live": "P1Y"}, "default_message_time_to_live"),
        ({"max_delivery_count": "many"}, "max_delivery_count"),
    ],
)
async def test_bad_fields_are_named(administration: Any, fields: Any, name: str) -> None:
    with pytest.raises(exceptions.InvalidArgumentError, match=name) as raised:
        await administration.create_queue("orders", **fields)

    assert raised.value.metadata["field"] == name


async def test_a_value_that_the_service_would_refuse_is_a_bad_request(administration: Any) -> None:
    with pytest.raises(HttpResponseError, match="status") as raised:
        await administration.create_queue("orders", status="Odd")

    assert (raised.value.status_code, raised.value.metadata["field"]) == (400, "status")


async def test_what_the_bus_refuses_names_the_field(administration: Any) -> None:
    with pytest.raises(HttpResponseError, match="forwardTo"):
        await administration.create_queue("orders", forward_to="other")


async def test_what_comes_later_is_refused_in_a_sentence(administration: Any) -> None:
    with pytest.raises(HttpResponseError, match="Filtering messages before publishing"):
        await administration.create_topic("t", filtering_messages_before_publishing=True)


@pytest.mark.parametrize("method", ["list_queues", "list_queues_runtime_properties"])
def test_queues_come_in_pages_that_can_be_gone_on_with(fake: FakeFrontEnd, method: str) -> None:
    for number in range(250):
        fake.add_queue(f"n{number:03}")
    with management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string
    ) as client:
        pages = getattr(client, method)().by_page()
        first = [queue.name for queue in next(pages)]
        rest = [
            queue.name
            for page in getattr(client, method)().by_page(pages.continuation_token)
            for queue in page
        ]
        everything = [queue.name for queue in getattr(client, method)()]

    assert len(first) == 100
    assert first + rest == everything
    assert len(everything) == 251


async def test_queues_come_in_pages_asynchronously(fake: FakeFrontEnd) -> None:
    for number in range(150):
        fake.add_queue(f"n{number:03}")
    async with aio_management.ServiceBusAdministrationClient.from_connection_string(
        fake.connection_string
    ) as client:
        pages = client.list_queues().by_page()
        sizes = [len([queue async for queue in page]) async for page in pages]
        everything = [queue.name async for queue in client.list_queues()]

    assert sizes == [100, 51]
    assert pages.continuation_token is None
    assert len(everything) == 151
