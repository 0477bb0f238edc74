"""TLS from a directory of `tls.crt`, `tls.key` and `ca.crt`, as a mounted Secret has them.

Servers read the files again whenever they change, without a restart: gRPC asks at each handshake.
gRPC clients cannot do that: they create a new channel when `watch` reports a change. A pair that is
half written or does not match is rejected: the last valid one stays in use.

`ca.crt` may hold several certificates, as it does while a CA is rotated.
"""

import asyncio
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

logger = logging.getLogger(__name__)
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITIES: Final = "ca.crt"
LOOK_S: Final = 1.0

_Stamp = tuple[tuple[str, int, int, int], ...]


class TlsError(Exception):
    """Raised when files of certificates cannot be used; one sentence: what, where, what to do."""


@dataclass(frozen=True, slots=True)
class Material:
    """What a process proves itself with and whom it trusts; all PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes


def read(directory: Path) -> Material:
    """Return the files of a directory. Raises TlsError."""
    contents: list[bytes] = []
    for name in (CERTIFICATE, KEY, AUTHORITIES):
        try:
            contents.append((directory / name).read_bytes())
        except OSError as error:
            reason = (error.strerror or "cannot be read").lower()
            raise TlsError(
                f"--tls-directory {directory}: {name}: {reason}. The directory must contain "
                f"{CERTIFICATE}, {KEY} and {AUTHORITIES}, all PEM."
            ) from error
    found = Material(*contents)
    _check(directory, found)
    return found


def _check(directory: Path, material: Material) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(cadata=material.authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(
            f"--tls-directory {directory}: {AUTHORITIES} contains no PEM certificates. It must "
            "contain the CA certificates to trust."
        ) from error
    try:
        # Without the password the loader would ask the terminal for one.
        context.load_cert_chain(directory / CERTIFICATE, directory / KEY, password=lambda: "")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise TlsError(
            f"--tls-directory {directory}: {CERTIFICATE} and {KEY} must be a PEM certificate and "
            "its unencrypted private key. Write both again."
        ) from error
    again = [(directory / name).read_bytes() for name in (CERTIFICATE, KEY)]
    if again != [material.certificate, material.key]:
        raise TlsError(f"--tls-directory {directory}: the certificates are being rotated; retry.")


class Directory:
    """The last valid files of a directory. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Read the files. Raises TlsError."""
        self.path = path
        # gRPC's threads look at handshakes, the loop looks now and then.
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._material = read(path)
        self._said = ""

    def material(self) -> Material:
        """Return what holds now; reads the files if they changed."""
        with self._lock:
            stamp = _stamp(self.path)
            if stamp != self._stamp:
                self._reload(stamp)
            return self._material

    def _reload(self, stamp: _Stamp) -> None:
        try:
            found = read(self.path)
        except (TlsError, OSError) as error:
            # The stamp stays the old one, so that the next look tries again.
            if str(error) != self._said:
                self._said = str(error)
                logger.warning(
                    "tls: new files rejected: %s", error, extra={"action": "tls-refused"}
                )
            return
        self._stamp, self._said = stamp, ""
        if found != self._material:
            self._material = found
            logger.info("tls: new certificates are in use", extra={"action": "tls-reloaded"})


def _stamp(path: Path) -> _Stamp:
    """Return what changes with the files; through links, which is what a Secret's swap moves."""
    found: list[tuple[str, int, int, int]] = []
    for name in (CERTIFICATE, KEY, AUTHORITIES):
        try:
            facts = (path / name).stat()
            found.append((name, facts.st_mtime_ns, facts.st_ino, facts.st_size))
        except OSError:
            found.append((name, 0, 0, 0))
    return tuple(found)


def server_context(directory: Directory) -> ssl.SSLContext:
    """Return the context of a server that is not gRPC's; `renew` keeps it up to date."""
    directory.material()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    renew(context, directory)
    return context


def renew(context: ssl.SSLContext, directory: Directory) -> None:
    """Let a context use the files of a directory from the next handshake on."""
    # Files that are being rotated right now keep the last ones in use; the next look takes them.
    with contextlib.suppress(ssl.SSLError, OSError):
        context.load_cert_chain(directory.path / CERTIFICATE, directory.path / KEY)


def server_credentials(
    directory: Directory, *, demand_client_certificate: bool
) -> grpc.ServerCredentials:
    """Return credentials for a port that follow the files of `directory`."""
    given = directory.material()

    def configuration(material: Material) -> grpc.ServerCertificateConfiguration:
        pairs = [(material.key, material.certificate)]
        return grpc.ssl_server_certificate_configuration(
            pairs, material.authorities if demand_client_certificate else None
        )

    def changed() -> Any:
        nonlocal given
        found = directory.material()
        if found is given:
            return None
        given = found
        return configuration(found)

    return grpc.dynamic_ssl_server_credentials(
        configuration(given), changed, demand_client_certificate
    )


def channel_credentials(material: Material) -> grpc.ChannelCredentials:
    """Return credentials for a channel that proves itself with `material` (mTLS)."""
    return grpc.ssl_channel_credentials(material.authorities, material.key, material.certificate)


async def watch(directory: Directory, changed: Callable[[Material], None]) -> None:
    """Call `changed` with every new material until cancelled."""
    known = directory.material()
    while True:
        await asyncio.sleep(LOOK_S)
        found = directory.material()
        if found is not known:
            known = found
            changed(found)


def explain(details: str, *, address: str, use_tls: bool) -> str:
    """Return what to change when a connection failed over TLS; "" when it did not, as it seems."""
    if use_tls and "WRONG_VERSION_NUMBER" in details:
        return (
            f"The bus at {address} does not use TLS: add UseDevelopmentEmulator=true to the "
            "connection string, or start the bus with TLS."
        )
    if use_tls and is_untrusted(details):
        return (
            f"The certificate of {address} is signed by an untrusted CA: give the path of the "
            "bus's ca.crt (connection_verify, --ca-file or BENDYBUS_CA_FILE)."
        )
    if use_tls and "is not in peer certificate" in details:
        return (
            f"The certificate is not valid for the host name in {address}: use a name that it "
            "contains, such as the one in the connection string of the bus's Secret."
        )
    if use_tls and "handshaker shutdown" in details:
        # gRPC tells this now and then in place of the reason that the handshake failed for.
        return (
            f"The TLS handshake with {address} failed. If its certificate is signed by the bus's "
            "own CA, give the path of its ca.crt (connection_verify, --ca-file or "
            "BENDYBUS_CA_FILE)."
        )
    if not use_tls and any(sign in details for sign in _CLOSED_AT_ONCE):
        return (
            f"The server at {address} closes plain-text connections of gRPC; if it uses TLS, "
            "remove UseDevelopmentEmulator=true from the connection string; if it is a port for "
            "AMQP, use the connection string for gRPC."
        )
    return ""


def is_untrusted(details: str) -> bool:
    """Whether a connection failed because the authority of its certificate is not trusted."""
    return "CERTIFICATE_VERIFY_FAILED" in details


# How a TLS port looks to a client that speaks plain text.
_CLOSED_AT_ONCE: Final = ("Socket closed", "SETTINGS frame")
