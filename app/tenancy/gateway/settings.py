"""The settings of `berth gateway`, and the bounds that hold for it, most of which no flag sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from app.placement.settings import PlacementSettings
from app.settings.source import SERVING, TLS, Flag, NotEmpty, Port
from app.tenancy.model import CONTACT_SECONDS
from app.tenancy.settings import AdminSettings

_RULES = 8
"""Rules of a tenant that may match all of the workloads that it may have; more where it has fewer workloads."""
_OF_TENANT = "Limits of a tenant"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds. Those of a tenant hold for each replica of the gateway, and for each client certificate's name alike."""

    message_bytes: int = 4 * 1024 * 1024
    """The largest message that is read."""
    connections: int = 2048
    """Open at a time, those whose handshake is not over among them. Where all are taken, the oldest that is of no known
    caller gives way. Each costs some 50 KiB."""
    connections_per_tenant: int = 32
    """One more closes the oldest."""
    streams_per_connection: int = 50
    streams_per_tenant: int = 8
    calls_per_tenant: int = 100
    """Calls and streams that are open at a time. Nothing of a call has been read yet but what gRPC takes unasked …"""
    unread_bytes: int = 64 * 1024
    """… which is so much of each."""
    requests_per_tenant: int = 8
    """Unary calls whose requests are in memory, from the first byte to the answer; more wait, unread …"""
    requests: int = 64
    """… and of all tenants together; these take turns."""
    exchange: float = 20.0
    """Seconds for a request to come in whole, and for an answer to be taken."""
    calls_per_second: float = 50.0
    """Unary calls that a tenant may make for long …"""
    calls_burst: int = 200
    """… and at once."""
    hold: float = 0.5
    """Seconds for which a call over the rate waits before it is refused …"""
    held_calls: int = 100
    """… and how many of one caller wait so; more are refused at once."""
    events_per_second: float = 1000.0
    """Events of workloads that are read from a tenant for long; its sender waits meanwhile …"""
    events_burst: int = 5000
    """… and at once."""
    bytes_per_second: float = 4.0 * 1024 * 1024
    """Bytes that are taken from all connections of a tenant for long, and at once; what is short or compressed counts
    for more (`FrameCosts`). Its sender waits meanwhile."""
    bytes_burst: int = 16 * 1024 * 1024
    strange_bytes_per_second: float = 256.0 * 1024
    """The same for all connections of a certificate on which no caller was recognized."""
    strange_bytes_burst: int = 1024 * 1024
    workload_bytes: int = 1024 * 1024
    """The largest document of a workload; a larger one is dropped and the last good state stays."""
    workloads_per_tenant: int = 20_000
    """Workloads of one stream; events of more are dropped. While a stream replaces what the one before it has left
    behind, twice as many may be stored …"""
    workload_mean_bytes: int = 4096
    """… and so many bytes for each of them, in all; one may have more where others have less."""
    reading_share: float = 0.25
    """Seconds of CPU in each second for reading and checking what a tenant sends, for long; it waits meanwhile …"""
    reading_burst: float = 5.0
    """… and at once."""
    rule_bytes: int = 64 * 1024
    """A rule: each of its companions is as large as its template."""
    pod_bytes: int = 64 * 1024
    """The manifest of a Pod, of which there may be thousands …"""
    pods_bytes: int = 160 * 1024 * 1024
    """… and of all Pods together, 8 KiB for each of those that a tenant may have …"""
    pending_pods_bytes: int = 8 * 1024 * 1024
    """… of those without a node, which the scheduler writes again and again …"""
    pending_pods: int = 100
    """… and how many these are: Pods of other tenants wait behind them for the scheduler …"""
    daemon_set_bytes: int = 16 * 1024
    """… and of a DaemonSet, which has as many Pods as there are nodes, all of them replaced with each change …"""
    manifest_bytes: int = 1024 * 1024
    """… and of a ConfigMap or Secret."""
    stored_bytes_per_second: float = 128.0 * 1024
    """Bytes that are written for a tenant for long: etcd keeps the states of the last five to ten minutes. What is more
    waits, or is refused …"""
    stored_bytes_burst: int = 96 * 1024 * 1024
    """… and at once: all workloads of a tenant, and more."""
    manifest_values: int = 50_000
    """Values of one manifest: each costs, however short it is."""
    yaml_bytes: int = 256 * 1024
    """The largest manifest in YAML, which costs far more to read than JSON does."""
    pending_events: int = 1000
    """Workloads of one stream that wait to be written; no more is read from the stream until there is room."""
    pending_bytes: int = 8 * 1024 * 1024
    writes: int = 16
    """Requests to the API server under way for all tenants together; tenants take turns …"""
    writes_per_tenant: int = 4
    """… and for one of them, of which writes of workloads that only wait for each other get two."""
    give_up: float = 60.0
    """Seconds for which the API server may fail before a workload stream is ended, so that its agent sends everything
    again."""
    contact: float = CONTACT_SECONDS
    """Seconds between two notes on a Tenant that its agent is connected, and between two of refusals."""
    tick: float = 1.0
    """Seconds between two looks at what depends on the clock: certificates and pins that end, files that change,
    health."""
    keepalive: float = 25.0
    """Seconds of silence after which a connection is pinged; one that does not answer within two fifths of that is
    closed, its streams with it."""
    handshakes: int = 30
    """In a tenth of a second: each takes one to two milliseconds of CPU."""
    handshake: float = 5.0
    """Seconds after which a connection is closed whose handshake is not over …"""
    idle: float = 300.0
    """… and one without a call: agents have streams."""

    def bytes_of(self, kind: str) -> int:
        """What the manifest of an object of this kind may have."""
        return {"Pod": self.pod_bytes, "DaemonSet": self.daemon_set_bytes}.get(kind, self.manifest_bytes)

    @property
    def pairs(self) -> int:
        """Rules of a tenant times its workloads.

        Each pair may take the controller 200 bytes and 10 µs at a sweep, and the status of a Workload 700 bytes.
        """
        return _RULES * self.workloads_per_tenant

    @property
    def workloads_bytes(self) -> int:
        """What all workloads of a stream may have together: a cluster stores them, and each role keeps them."""
        return max(self.workload_bytes, self.workloads_per_tenant * self.workload_mean_bytes)


_LIMITS = Limits()


class GatewaySettings(AdminSettings, PlacementSettings):
    """The settings of `berth gateway`. Times are in seconds; limits of a tenant hold for each replica."""

    port: Annotated[Port, Flag("gRPC port", SERVING)] = 9090
    drain_seconds: Annotated[float, Flag("How long calls under way may take after SIGTERM", SERVING)] = Field(
        5.0, ge=0, le=600
    )
    tls_cert_file: Annotated[NotEmpty, Flag("Serving certificate, PEM", TLS)] = "tls.crt"
    tls_private_key_file: Annotated[NotEmpty, Flag("Its private key, PEM", TLS)] = "tls.key"
    client_ca: Annotated[NotEmpty, Flag("CAs of tenants' and the admin's certificates, PEM", TLS)] = "ca.crt"
    admin_ca: Annotated[
        NotEmpty | None, Flag("CAs of --client-ca that issue the cloud admin's, PEM", TLS, default="any")
    ] = None
    max_message_bytes: Annotated[int, Flag("Largest message read", _OF_TENANT)] = Field(
        _LIMITS.message_bytes, ge=64 * 1024, le=64 * 1024 * 1024
    )
    streams_per_tenant: Annotated[int, Flag("Streams open at a time", _OF_TENANT)] = Field(
        _LIMITS.streams_per_tenant, ge=3, le=1000
    )
    calls_per_second: Annotated[float, Flag("Unary calls a second, on average", _OF_TENANT)] = Field(
        _LIMITS.calls_per_second, gt=0, allow_inf_nan=False
    )
    calls_burst: Annotated[int, Flag("Unary calls at once, above that average", _OF_TENANT)] = Field(
        _LIMITS.calls_burst, ge=1
    )
    workloads_per_tenant: Annotated[
        int,
        Flag("Workloads that are stored, with 4 KiB for each; times 8, the bound of rules times workloads", _OF_TENANT),
    ] = Field(_LIMITS.workloads_per_tenant, ge=1)
    writes_per_tenant: Annotated[int, Flag("Writes to the API server under way", _OF_TENANT)] = Field(
        _LIMITS.writes_per_tenant, ge=1, le=256
    )

    @property
    def limits(self) -> Limits:
        """The bounds of the gateway, those of the flags among them."""
        return Limits(
            message_bytes=self.max_message_bytes,
            streams_per_tenant=self.streams_per_tenant,
            calls_per_second=self.calls_per_second,
            calls_burst=self.calls_burst,
            workloads_per_tenant=self.workloads_per_tenant,
            writes_per_tenant=self.writes_per_tenant,
            writes=max(_LIMITS.writes, self.writes_per_tenant),
        )

    @model_validator(mode="after")
    def _two_ports(self) -> GatewaySettings:
        if self.port == self.health_check_port != 0:
            raise ValueError("--port and --health-check-port: want two ports, got one")
        return self
