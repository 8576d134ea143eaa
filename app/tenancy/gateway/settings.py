"""The settings of `berth gateway`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from app.placement.settings import PlacementSettings
from app.settings.flags import SERVING, TLS, Flag
from app.settings.source import NotEmpty, Port
from app.tenancy.gateway.options import GatewayOptions, Limits, TlsFiles
from app.tenancy.settings import AdminSettings

_LIMITS = Limits()
_OF_TENANT = "Limits of a tenant"


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
    calls_per_second: Annotated[float, Flag("Unary calls, for long", _OF_TENANT)] = Field(
        _LIMITS.calls_per_second, gt=0, allow_inf_nan=False
    )
    calls_burst: Annotated[int, Flag("Unary calls, at once", _OF_TENANT)] = Field(_LIMITS.calls_burst, ge=1)
    workloads_per_tenant: Annotated[
        int, Flag("Workloads taken, of 4 KiB each in all, and 8 rules for all", _OF_TENANT)
    ] = Field(_LIMITS.workloads_per_tenant, ge=1)
    writes_per_tenant: Annotated[int, Flag("Writes to the API server under way", _OF_TENANT)] = Field(
        _LIMITS.writes_per_tenant, ge=1, le=256
    )

    @property
    def options(self) -> GatewayOptions:
        """What the gateway itself is told."""
        limits = Limits(
            message_bytes=self.max_message_bytes,
            streams_per_tenant=self.streams_per_tenant,
            calls_per_second=self.calls_per_second,
            calls_burst=self.calls_burst,
            workloads_per_tenant=self.workloads_per_tenant,
            writes_per_tenant=self.writes_per_tenant,
            writes=max(_LIMITS.writes, self.writes_per_tenant),
        )
        files = TlsFiles(
            certificate=Path(self.tls_cert_file),
            key=Path(self.tls_private_key_file),
            client_ca=Path(self.client_ca),
            admin_ca=Path(self.admin_ca) if self.admin_ca is not None else None,
        )
        return GatewayOptions(
            tls=files,
            host=self.bind_address,
            port=self.port,
            admin_names=self.admin_names,
            limits=limits,
            placement=self.placement,
            drain=self.drain_seconds,
        )

    @model_validator(mode="after")
    def _two_ports(self) -> GatewaySettings:
        if self.port == self.health_check_port != 0:
            raise ValueError("--port and --health-check-port: want two ports, got one")
        return self
