"""The certificate of a local bus."""

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from bendybus.cli.local import certificate


def names_of(folder: Path) -> set[str]:
    found = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    held = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(each.value) for each in held}


def test_a_certificate_is_made_once_and_is_good_for_this_machine(tmp_path: Path) -> None:
    folder = certificate.ensure(tmp_path)
    first = (folder / "tls.crt").read_bytes()

    again = certificate.ensure(tmp_path)

    assert (again / "tls.crt").read_bytes() == first
    assert names_of(folder) >= {"localhost", "127.0.0.1", "::1"}
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "tls.crt", folder / "tls.key")
    assert ssl.create_default_context(cafile=folder / "ca.crt").get_ca_certs()
    assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600


def test_a_certificate_that_lacks_a_name_is_replaced(tmp_path: Path) -> None:
    certificate.ensure(tmp_path)

    folder = certificate.ensure(tmp_path, ["servicebus-emulator", "10.0.0.7"])

    assert names_of(folder) >= {"localhost", "servicebus-emulator", "10.0.0.7"}
    assert certificate.ensure(tmp_path, ["servicebus-emulator"]) == folder


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_what_was_only_half_written_is_replaced(tmp_path: Path, name: str) -> None:
    folder = certificate.ensure(tmp_path)
    (folder / name).unlink()

    certificate.ensure(tmp_path)

    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "tls.crt", folder / "tls.key")
    assert (folder / "ca.crt").exists()


def test_a_certificate_is_replaced_before_it_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = certificate.ensure(tmp_path)
    first = (folder / "tls.crt").read_bytes()
    monkeypatch.setattr(certificate, "_LEFT", timedelta(days=398))

    certificate.ensure(tmp_path)

    found = x509.load_pem_x509_certificate((folder / "tls.crt").read_bytes())
    assert (folder / "tls.crt").read_bytes() != first
    assert found.not_valid_after_utc > datetime.now(UTC) + timedelta(days=396)
