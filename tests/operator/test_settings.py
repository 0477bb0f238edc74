"""Settings: what the environment says, and one sentence for each value that cannot be."""

from pathlib import Path

import pytest

from bendybus.operator.settings import PREFIX, Settings

ALONE = {f"{PREFIX}PEERING": ""}


def test_defaults_run_without_peers() -> None:
    assert Settings.from_env(ALONE) == Settings(peering="")


def test_the_environment_is_read_by_type() -> None:
    settings = Settings.from_env(
        {
            f"{PREFIX}IDENTITY": "pod-1",
            f"{PREFIX}WATCH_NAMESPACES": "shop, billing,",
            f"{PREFIX}RESYNC_S": "60",
            f"{PREFIX}WEBHOOK_PORT": "9000",
            f"{PREFIX}TLS_DIRECTORY": "/etc/tls",
            "BENDYBUS_OTHER": "x",
        }
    )

    assert settings.watch_namespaces == ("shop", "billing")
    assert (settings.resync_s, settings.webhook_port) == (60.0, 9000)
    assert settings.tls_directory == Path("/etc/tls")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESYNC_S", "soon"),
        ("RESYNC_S", "0"),
        ("COUNTS_EVERY_S", "-1"),
        ("CALL_TIMEOUT_S", "nan"),
        ("STATUS_PATCHES_PER_S", "inf"),
        ("WEBHOOK_PORT", "0"),
        ("PROBE_PORT", "65536"),
        ("METRICS_PORT", "http"),
        ("CERTIFICATE_DAYS", "0"),
        ("ISSUER_KIND", "ClusterIssuer"),
        ("IMAGE", ""),
        ("NAMESPACE", ""),
        ("METRICS_FROM", "everyone"),
        ("METRICS_FROM", "{}"),
        ("METRICS_FROM", "[1]"),
        ("CERT_MANAGER", "perhaps"),
        ("SERVICE", ""),
        ("IMAGE_PULL_POLICY", "Sometimes"),
        ("LOG_LEVEL", "chatty"),
    ],
)
def test_a_value_that_cannot_be_is_named_in_one_sentence(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{PREFIX}{name}.*\\.$") as raised:
        Settings.from_env({**ALONE, PREFIX + name: value})

    assert "\n" not in str(raised.value)


def test_only_issuers_that_cert_manager_has_are_taken() -> None:
    env = {
        **ALONE,
        f"{PREFIX}CERT_MANAGER": "true",
        f"{PREFIX}ISSUER_KIND": "Ca",
        f"{PREFIX}ISSUER_NAME": "x",
    }

    with pytest.raises(ValueError, match=f"^{PREFIX}ISSUER_KIND: "):
        Settings.from_env(env)


def test_among_peers_an_operator_needs_a_name() -> None:
    with pytest.raises(ValueError, match=f"^{PREFIX}IDENTITY: "):
        Settings.from_env({})
