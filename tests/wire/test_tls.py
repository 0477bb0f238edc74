"""What a failed connection says of TLS, by the words that gRPC has for it."""

import pytest

from bendybus.wire import tls


@pytest.mark.parametrize(
    ("details", "use_tls", "advice"),
    [
        ("SSL routines:CERTIFICATE_VERIFY_FAILED: unable to get", True, "BENDYBUS_CA_FILE"),
        (
            "last error: UNKNOWN: ipv4:127.0.0.1:1: tcp handshaker shutdown",
            True,
            "BENDYBUS_CA_FILE",
        ),
        ("OPENSSL_internal:WRONG_VERSION_NUMBER", True, "UseDevelopmentEmulator=true"),
        ("127.0.0.1 is not in peer certificate", True, "a name that it contains"),
        ("Socket closed", False, "remove UseDevelopmentEmulator=true"),
        ("Socket closed", False, "if it is a port for AMQP, use the connection string for gRPC"),
    ],
)
def test_a_handshake_that_failed_says_what_to_change(
    details: str, use_tls: bool, advice: str
) -> None:
    assert advice in tls.explain(details, address="bus:1", use_tls=use_tls)


@pytest.mark.parametrize("use_tls", [True, False])
def test_a_bus_that_is_away_is_no_matter_of_tls(use_tls: bool) -> None:
    assert tls.explain("Connection refused", address="bus:1", use_tls=use_tls) == ""
