"""gRPC reaches a bus directly: a proxy for the web knows none on this machine or in its cluster."""

import pytest

from bendybus.client.core import channel
from bendybus.operator.bus import partition_channel
from bendybus.wire import serving

DIRECT = ("grpc.enable_http_proxy", 0)


@pytest.mark.requirement("R585")
def test_no_channel_goes_through_a_proxy_of_the_environment() -> None:
    for options in (channel._OPTIONS, serving._PEER_OPTIONS, partition_channel._OPTIONS):
        assert DIRECT in options
