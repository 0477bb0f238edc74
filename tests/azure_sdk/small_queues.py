"""A partition server that creates queues of one megabyte, as earlier versions did; to fill them."""

from bendybus.domain import entity_settings
from bendybus.domain.limits import Tier
from bendybus.partition_server.__main__ import main
from bendybus.wire import serving

if __name__ == "__main__":
    size = entity_settings.BY_NAME["max_size_in_megabytes"]
    size.bounds_of_new[Tier.PREMIUM] = size.bounds[Tier.PREMIUM]  # type: ignore[index]
    serving.leave(main())
