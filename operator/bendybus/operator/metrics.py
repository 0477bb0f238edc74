"""Prometheus metrics of the operator; names are part of docs/reference/metrics.md."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from bendybus.operator.builders import frontend, partitions

ROLES: Final = (partitions.ROLE, frontend.ROLE)
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """All of them, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reconcile = Histogram(
            "bendybus_operator_reconcile_seconds",
            "Time to reconcile one manifest, including calls.",
            ["kind"],
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.errors = Counter(
            "bendybus_operator_reconcile_errors",
            "Failed reconciliations of a manifest; they are retried.",
            ["kind"],
            registry=self.registry,
        )
        self.not_ready = Gauge(
            "bendybus_operator_not_ready",
            "Manifests that are not Ready, by kind and reason.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self.leading = Gauge(
            "bendybus_operator_leading",
            "1 on the leader, 0 on its standby.",
            registry=self.registry,
        )
        self.waiting = Gauge(
            "bendybus_operator_status_waiting",
            "Objects whose status is waiting to be written.",
            registry=self.registry,
        )
        self.written = Gauge(
            "bendybus_operator_status_written",
            "Status patches written since the start.",
            registry=self.registry,
        )
        self._of_buses()
        self.refused = Counter(
            "bendybus_operator_admission_refused",
            "Changes rejected by the webhooks.",
            ["kind"],
            registry=self.registry,
        )
        self.controller_failures = Counter(
            "bendybus_operator_keeper_failures",
            "Failures of the controller of a bus; it is restarted.",
            ["namespace", "bus"],
            registry=self.registry,
        )
        self.certificate_end = Gauge(
            "bendybus_operator_webhook_certificate_end_seconds",
            "When the webhooks' certificate expires, seconds since 1970.",
            registry=self.registry,
        )

    def _of_buses(self) -> None:
        self.unreachable = Gauge(
            "bendybus_operator_partitions_unreachable",
            "Partitions of a bus that are unavailable.",
            ["namespace", "bus"],
            registry=self.registry,
        )
        self.orphaned = Gauge(
            "bendybus_operator_orphaned_entities",
            "Entities of a bus whose manifest is gone and whose messages are kept.",
            ["namespace", "bus"],
            registry=self.registry,
        )
        self._certificates = Gauge(
            "bendybus_operator_certificate_end_seconds",
            "When a certificate of a bus expires, seconds since 1970.",
            ["namespace", "bus", "role"],
            registry=self.registry,
        )

    def show_certificates(self, namespace: str, bus: str, ends: Mapping[str, float]) -> None:
        """Show when the certificates of a bus expire; `ends`: role → seconds since 1970."""
        for role in ROLES:
            if role in ends:
                self._certificates.labels(namespace, bus, role).set(ends[role])
            else:
                self._certificates.remove(namespace, bus, role)

    def forget_bus(self, namespace: str, bus: str) -> None:
        """Remove the metrics of a bus that is no longer polled."""
        for gauge in (self.unreachable, self.orphaned):
            gauge.remove(namespace, bus)

    def show_not_ready(self, reasons: Mapping[tuple[str, str], int]) -> None:
        """Show how many manifests are not Ready; `reasons`: (kind, reason) → how many."""
        self.not_ready.clear()
        for labels, count in reasons.items():
            self.not_ready.labels(*labels).set(count)

    def reconciled(self, kind: str, seconds: float) -> None:
        """Record one reconciliation of a manifest."""
        self._reconcile.labels(kind).observe(seconds)
