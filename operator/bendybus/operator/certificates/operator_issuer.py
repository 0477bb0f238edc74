"""Issues certificates without cert-manager; the authorities are stored in Secrets.

The operator's authority is in its own namespace and signs the operator's certificates; each bus has
another, in the namespace of the bus, which signs for that bus only (`BusAuthority`): what is signed
for one bus, whatever names its manifest requests, is trusted by the processes and clients of that
bus only. Partitions trust the operator's root beside their own for the operator's calls. A bus
whose certificates are by another root moves to its own by the steps of `trusted_roots`.
"""

import base64
import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bendybus.operator.builders import partitions
from bendybus.operator.builders.certificates import Wanted
from bendybus.operator.certificates import certificate_authority, trusted_roots
from bendybus.operator.certificates.certificate_authority import Authority
from bendybus.operator.certificates.trusted_roots import RootRotation, outlasts_rotation
from bendybus.operator.kubernetes import names
from bendybus.operator.kubernetes.api import ApiError, KubernetesApi
from bendybus.operator.kubernetes.names import ObjectKey
from bendybus.operator.settings import Settings
from bendybus.wire import tls

logger = logging.getLogger(__name__)
SECRET: Final = "bendybus-ca"


def files_of(secret: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the files of a Secret as text, without those that are not UTF-8."""
    files = {}
    for name, text in ((secret or {}).get("data") or {}).items():
        with contextlib.suppress(ValueError):
            files[name] = base64.b64decode(text).decode()
    return files


def now_utc() -> dt.datetime:
    """Return the wall clock."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, slots=True)
class BusAuthority:
    """The root of a bus, and how far the bus has moved to it."""

    own: Authority
    rotation: RootRotation

    @property
    def trust(self) -> str:
        """What the processes and clients of the bus trust, PEM."""
        return trusted_roots.joined(self.own.bundle, self.rotation.former)

    @classmethod
    def from_files(cls, files: Mapping[str, str]) -> "BusAuthority":
        """Return what a Secret's files hold. Raises KeyError, ValueError, TypeError."""
        return cls(Authority.from_files(files), RootRotation.from_files(files))

    def to_files(self) -> dict[str, str]:
        """Return the files of its Secret."""
        return self.own.to_files() | self.rotation.to_files()


class OperatorIssuer:
    """The authorities of an operator and of its buses; the Secrets are the only state."""

    def __init__(
        self, api: KubernetesApi, settings: Settings, now: Callable[[], dt.datetime] = now_utc
    ) -> None:
        self._api = api
        self._settings = settings
        self._now = now
        self._operator: dict[str, str] = {}

    async def authority(self) -> Authority:
        """Return the operator's authority, created or rotated if due. Raises ApiError."""
        namespace = self._settings.namespace
        secret = await self._api.get("Secret", namespace, SECRET)
        if secret is None:
            try:
                made = certificate_authority.new_authority(self._now())
                secret = await self._api.create(self._secret(made))
                logger.info("authority: created", extra={"action": "authority-made"})
            except ApiError as error:
                if error.status != 409:
                    raise
                # A peer has created it meanwhile.
                secret = await self._api.get("Secret", namespace, SECRET)
        try:
            known = Authority.from_files(files_of(secret))
        except (KeyError, ValueError, TypeError) as error:
            raise ApiError(
                422,
                f"Secret {namespace}/{SECRET} does not hold a certificate authority. Restore its "
                "files, or delete it: then a new authority and new certificates are created.",
            ) from error
        advanced = certificate_authority.advanced(known, self._now())
        if advanced is not known:
            assert secret is not None
            body = self._secret(advanced)
            # Rejected if a peer has changed it meanwhile; the next call reads that.
            body["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
            await self._api.apply(body)
            logger.info("authority: rotated one step", extra={"action": "authority-advanced"})
        return advanced

    async def certificate(self, wanted: Wanted, current: Mapping[str, str]) -> dict[str, str]:
        """Return the files of a certificate of the operator itself, by its own root.

        `current` is returned while it is valid.
        """
        authority = await self.authority()
        return self._certificate(wanted, current, authority) | {"ca.crt": authority.bundle}

    async def of_bus(
        self, bus: ObjectKey, metadata: Mapping[str, Any] | None = None
    ) -> BusAuthority:
        """Return the authority of a bus, created or rotated if due. Raises ApiError.

        `metadata`: of the Secret, to create it; None: it is only read.
        """
        name = names.authority(bus)
        secret = await self._api.get("Secret", bus.namespace, name)
        if secret is None and metadata is not None:
            running = await self._api.get("Secret", bus.namespace, names.partition_tls(bus))
            made = first_authority(self._now(), files_of(running).get("ca.crt", ""))
            try:
                secret = await self._api.create(_secret(metadata, made.to_files()))
                logger.info("bus %s: root created", bus, extra={"action": "bus-root-made"})
            except ApiError as error:
                if error.status != 409:
                    raise
                secret = await self._api.get("Secret", bus.namespace, name)
        try:
            known = BusAuthority.from_files(files_of(secret))
        except (KeyError, ValueError, TypeError) as error:
            raise ApiError(
                422 if secret is not None else 0,
                f"Secret {bus.namespace}/{name} does not hold a certificate authority. Restore "
                "its files, or delete it: then the bus gets a new root.",
            ) from error
        advanced = _advanced_authority(known, self._now())
        if metadata is None or advanced is known or not await self._is_spread(bus, known):
            return known
        assert secret is not None
        body = _secret(metadata, advanced.to_files())
        body["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
        await self._api.apply(body)
        logger.info("bus %s: root rotated one step", bus, extra={"action": "bus-root-advanced"})
        return advanced

    async def _is_spread(self, bus: ObjectKey, known: BusAuthority) -> bool:
        """Whether the processes and clients of a bus are configured to trust its root.

        Until then the root must not sign, however much time has passed.
        """
        clients = names.access_secret(bus, names.ROOT_RULE)
        for name in (names.partition_tls(bus), names.frontend_tls(bus), clients):
            files = files_of(await self._api.get("Secret", bus.namespace, name))
            try:
                trusted = trusted_roots.joined(files.get("ca.crt", ""))
            except ValueError:
                return False
            if trusted_roots.joined(trusted, known.trust) != trusted:
                return False
        return True

    async def bus_certificate(
        self, wanted: Wanted, current: Mapping[str, str], of_bus: BusAuthority
    ) -> dict[str, str]:
        """Return the files of a certificate of a bus's process, by the root of that bus."""
        trust = of_bus.trust
        if wanted.role == partitions.ROLE:
            # The operator calls partitions with a certificate by a root that no bus can use.
            trust = trusted_roots.joined(trust, (await self.authority()).bundle)
        if stays(current, of_bus, self._now()):
            return {name: current[name] for name in ("tls.crt", "tls.key")} | {"ca.crt": trust}
        return self._certificate(wanted, current, of_bus.own) | {"ca.crt": trust}

    def overdue(self, files: Mapping[str, str]) -> bool:
        """Whether the renewal of a certificate is overdue, or it cannot be read."""
        try:
            return certificate_authority.is_overdue(files["tls.crt"], self._now())
        except (KeyError, ValueError):
            return True

    def _certificate(
        self, wanted: Wanted, current: Mapping[str, str], authority: Authority
    ) -> dict[str, str]:
        if certificate_authority.is_current(
            current, authority, dns_names=wanted.dns_names, uris=[wanted.uri], now=self._now()
        ):
            return {name: current[name] for name in ("tls.crt", "tls.key")}
        pair = certificate_authority.issue(
            authority,
            name=wanted.secret,
            dns_names=wanted.dns_names,
            uris=[wanted.uri],
            ip_addresses=wanted.ip_addresses,
            days=self._settings.certificate_days,
            now=self._now(),
        )
        return {"tls.crt": pair.certificate, "tls.key": pair.key}

    async def operator_material(self, bus: ObjectKey) -> tls.Material:
        """Return the operator's certificate, and what it trusts of a bus. Raises ApiError."""
        trust = (await self.of_bus(bus)).trust
        wanted = Wanted("operator", "bendybus-operator", (), names.OPERATOR_IDENTITY)
        self._operator = await self.certificate(wanted, self._operator)
        return tls.Material(
            self._operator["tls.crt"].encode(), self._operator["tls.key"].encode(), trust.encode()
        )

    def _secret(self, authority: Authority) -> dict[str, Any]:
        metadata = {
            "name": SECRET,
            "namespace": self._settings.namespace,
            "labels": dict(names.MANAGED_BY),
        }
        return _secret(metadata, authority.to_files())


def _secret(metadata: Mapping[str, Any], files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": dict(metadata),
        "type": "Opaque",
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
    }


def first_authority(now: dt.datetime, former: str) -> BusAuthority:
    """Return a new root. `former`: what the bus's processes trust now, "" for a new bus."""
    own = certificate_authority.new_authority(now)
    return BusAuthority(own, RootRotation.begin(former, own.bundle, now))


def _advanced_authority(known: BusAuthority, now: dt.datetime) -> BusAuthority:
    """Return the authority one step further if it is due, else itself.

    Only for a bus whose processes and clients all trust the root as it is now.
    """
    if known.rotation.former:
        rotation = known.rotation.advanced(now, trusted=True, issued=True)
        return known if rotation is known.rotation else replace(known, rotation=rotation)
    own = certificate_authority.advanced(known.own, now)
    return known if own is known.own else replace(known, own=own)


def stays(files: Mapping[str, str], known: BusAuthority, now: dt.datetime) -> bool:
    """Whether a certificate by the former root stays: others do not trust the new root yet."""
    if known.rotation.signs:
        return False
    try:
        certificate = x509.load_pem_x509_certificate(files["tls.crt"].encode())
        key = serialization.load_pem_private_key(files["tls.key"].encode(), None)
    except (KeyError, ValueError, TypeError):
        return False
    if key.public_key() != certificate.public_key():
        return False
    if certificate_authority.is_of_future(files["tls.crt"], now):
        return False
    return outlasts_rotation(files["tls.crt"], now)
