"""Keeps the operator's own certificate authority in a Secret, and hands out certificates."""

import base64
import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from bendybus.operator import certificates, names
from bendybus.operator.builders.certificates import Wanted
from bendybus.operator.certificates import Authority
from bendybus.operator.kubernetes_api import ApiError, KubernetesApi
from bendybus.operator.settings import Settings
from bendybus.wire import tls

logger = logging.getLogger(__name__)
SECRET: Final = "bendybus-ca"
_CERTIFICATE_FILES: Final = ("tls.crt", "tls.key", "ca.crt")


def files_of(secret: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the files of a Secret as text, without those that are none: anybody may write them."""
    files = {}
    for name, text in ((secret or {}).get("data") or {}).items():
        with contextlib.suppress(ValueError):
            files[name] = base64.b64decode(text).decode()
    return files


def now_utc() -> dt.datetime:
    """Return the wall clock."""
    return dt.datetime.now(dt.UTC)


class OwnAuthority:
    """The authority of one operator and its peers; the Secret is the truth."""

    def __init__(
        self, api: KubernetesApi, settings: Settings, now: Callable[[], dt.datetime] = now_utc
    ) -> None:
        self._api = api
        self._settings = settings
        self._now = now
        self._operator: tuple[str, tls.Material] | None = None

    async def authority(self) -> Authority:
        """Return the authority, made or advanced if it is time. Raises ApiError."""
        namespace = self._settings.namespace
        secret = await self._api.get("Secret", namespace, SECRET)
        if secret is None:
            try:
                made = certificates.new_authority(self._now())
                secret = await self._api.create(self._secret(made))
                logger.info("authority: made", extra={"action": "authority-made"})
            except ApiError as error:
                if error.status != 409:
                    raise
                # A peer was quicker: its authority is the one.
                secret = await self._api.get("Secret", namespace, SECRET)
        try:
            known = Authority.from_files(files_of(secret))
        except (KeyError, ValueError, TypeError) as error:
            raise ApiError(
                422,
                f"Secret {namespace}/{SECRET} holds no certificate authority. Put its files back, "
                "or delete it: then a new one is made, and every certificate by it.",
            ) from error
        advanced = certificates.advanced(known, self._now())
        if advanced is not known:
            assert secret is not None
            body = self._secret(advanced)
            # Refused when a peer advanced it meanwhile; the next look finds that.
            body["metadata"]["resourceVersion"] = secret["metadata"]["resourceVersion"]
            await self._api.apply(body)
            logger.info("authority: replaced or renewed", extra={"action": "authority-advanced"})
        return advanced

    async def certificate(self, wanted: Wanted, current: Mapping[str, str]) -> dict[str, str]:
        """Return the files of a certificate: `current` as long as they will do."""
        authority = await self.authority()
        if certificates.is_current(
            current, authority, dns_names=wanted.dns_names, uris=[wanted.uri], now=self._now()
        ):
            pair = certificates.Pair(current["tls.crt"], current["tls.key"])
        else:
            pair = certificates.issue(
                authority,
                name=wanted.secret,
                dns_names=wanted.dns_names,
                uris=[wanted.uri],
                ip_addresses=wanted.ip_addresses,
                days=self._settings.certificate_days,
                now=self._now(),
            )
        return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.bundle}

    async def operator_material(self) -> tls.Material:
        """Return what the operator proves itself with towards partitions."""
        files = self._operator_files()
        wanted = Wanted("operator", "bendybus-operator", (), names.OPERATOR_IDENTITY)
        files = await self.certificate(wanted, files)
        encoded = [files[name].encode() for name in _CERTIFICATE_FILES]
        material = tls.Material(*encoded)
        if self._operator is None or self._operator[1] != material:
            self._operator = (files["tls.crt"], material)
        return self._operator[1]

    def _operator_files(self) -> dict[str, str]:
        if self._operator is None:
            return {}
        material = self._operator[1]
        contents = (material.certificate, material.key, material.authorities)
        return {
            name: content.decode()
            for name, content in zip(_CERTIFICATE_FILES, contents, strict=True)
        }

    def _secret(self, authority: Authority) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": SECRET,
                "namespace": self._settings.namespace,
                "labels": dict(names.MANAGED_BY),
            },
            "type": "Opaque",
            "data": {
                name: base64.b64encode(text.encode()).decode()
                for name, text in authority.to_files().items()
            },
        }
