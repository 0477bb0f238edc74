"""What an entity holds, as clients see it."""

import pytest

from bendybus.frontend.core.manage import Runtime
from bendybus.frontend.listeners.management_service import runtime_to_proto
from bendybus.frontend.upstreams.unary_calls import Counts
from tests.frontend.entities import queue


@pytest.mark.requirement("R35", "R339")
@pytest.mark.parametrize("partitions", [1, 4])
def test_the_total_size_is_that_of_all_partitions(partitions: int) -> None:
    entity = queue(partitions=partitions)

    shown = runtime_to_proto(entity, Runtime(Counts(), {0: Counts()}))

    size_mb = entity.description.max_size_in_megabytes
    assert shown.max_size_in_megabytes_total == partitions * size_mb
