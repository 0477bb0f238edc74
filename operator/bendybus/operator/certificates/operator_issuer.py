"""Issues certificates without cert-manager; the authorities are stored in Secrets.

The operator's authority is in its own namespace and signs the operator's certificates; each bus has
another, in the namespace of the bus, which signs for that bus only.
"""

import base64
import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from bendybus.operator.builders import partitions
from bendybus.operator.builders.certificates import Wanted
from bendybus.operator.certificates import bundles, bus_authority, certificate_authority
from bendybus.operator.certificates.bus_authority import BusAuthority
from bendybus.operator.certificates.certificate_authority import Authority
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
            made = bus_authority.first(self._now(), files_of(running).get("ca.crt", ""))
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
        advanced = bus_authority.advanced(known, self._now())
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
                trusted = bundles.joined(files.get("ca.crt", ""))
            except ValueError:
                return False
            if bundles.joined(trusted, known.trust) != trusted:
                return False
        return True

    async def bus_certificate(
        self, wanted: Wanted, current: Mapping[str, str], of_bus: BusAuthority
    ) -> dict[str, str]:
        """Return the files of a certificate of a bus's process, by the root of that bus."""
        trust = of_bus.trust
        if wanted.role == partitions.ROLE:
            # The operator calls partitions with a certificate by a root that no bus can use.
            trust = bundles.joined(trust, (await self.authority()).bundle)
        if bus_authority.stays(current, of_bus, self._now()):
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
