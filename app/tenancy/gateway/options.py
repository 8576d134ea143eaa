"""The options of the gateway: its address, its certificate files, its limits, its timeouts. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.placement.model import PlacementOptions
from app.tenancy.model import ADMIN_NAME

_IDENTITY_ONLY = 1
"""Bit set of compressions: none. A compressed message is measured before it is inflated, which is no bound."""
_RULES = 8
"""Rules of a tenant that may match all of the workloads that it may have; more where it has fewer workloads."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the serving certificate with its chain, its key, and the authorities of client certificates.

    `admin_ca` has those of `client_ca` that may speak for the cloud admin; None leaves it to the name alone.
    """

    certificate: Path
    key: Path
    client_ca: Path
    admin_ca: Path | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds. Those of a tenant hold for each replica of the gateway, and for each client certificate's name alike."""

    message_bytes: int = 4 * 1024 * 1024
    """The largest message that is read."""
    connections: int = 4096
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
    events_per_second: float = 1000.0
    """Events of workloads that are read from a tenant for long; its sender waits meanwhile …"""
    events_burst: int = 5000
    """… and at once."""
    bytes_per_second: float = 4.0 * 1024 * 1024
    """Bytes that are taken from all connections of a tenant for long, and at once; what is short or compressed counts
    for more (`framing`). Its sender waits meanwhile."""
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
    """… and of a DaemonSet, which has as many Pods as there are nodes, all of them made anew with each change …"""
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
    """… and for one of them."""

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


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`port` 0 takes a free one. Times are in seconds.

    `give_up` is how long the API server may fail before a workload stream is ended, so that its agent sends
    everything again. `drain` is what calls under way get at the end; `tick` how often what depends on the clock is
    looked at: certificates and pins that end, files that change, health. A connection that has been silent for
    `keepalive` is pinged; one that does not answer within two fifths of that is closed, its streams with it. Closed is
    also one whose handshake takes longer than `handshake`, and one without a call for `idle`: agents have streams.
    """

    tls: TlsFiles
    host: str = "0.0.0.0"  # noqa: S104 - a server in a Pod; the certificate is what keeps others out
    port: int = 0
    admin_names: tuple[str, ...] = (ADMIN_NAME,)
    limits: Limits = field(default_factory=Limits)
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    give_up: float = 60.0
    drain: float = 5.0
    tick: float = 1.0
    keepalive: float = 25.0
    handshake: float = 5.0
    idle: float = 300.0


def channel_options(options: GatewayOptions) -> list[tuple[str, Any]]:
    """Those of the gRPC server."""
    limits = options.limits
    keepalive, patience = int(options.keepalive * 1000), int(options.keepalive * 400)
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        # What comes in before anybody asks for it. Else it would grow with the speed of the line, up to megabytes.
        ("grpc.http2.lookahead_bytes", limits.unread_bytes),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.server_handshake_timeout_ms", int(options.handshake * 1000)),
        ("grpc.max_connection_idle_ms", int(options.idle * 1000)),
        ("grpc.max_concurrent_streams", limits.streams_per_connection),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        # Streams stay up for days: pings find a dead peer, and keep what lies between from forgetting us.
        ("grpc.keepalive_time_ms", keepalive),
        ("grpc.keepalive_timeout_ms", patience),
        ("grpc.http2.ping_timeout_ms", patience),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ]
