"""What `berth gateway` is told."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from app.settings.placement import PlacementSettings
from app.settings.source import Port, load_role, not_empty
from app.tenancy.gateway.options import GatewayOptions, Limits, TlsFiles

_LIMITS = Limits()


class GatewaySettings(PlacementSettings):
    """Everything `berth gateway` is told. Times are in seconds; limits of a tenant hold for each replica."""

    port: Port = 9090
    tls_cert_file: str = "tls.crt"
    tls_private_key_file: str = "tls.key"
    client_ca: str = "ca.crt"
    admin_ca: str | None = None
    max_message_bytes: int = Field(default=_LIMITS.message_bytes, ge=64 * 1024, le=64 * 1024 * 1024)
    streams_per_tenant: int = Field(default=_LIMITS.streams_per_tenant, ge=3, le=1000)
    calls_per_second: float = Field(default=_LIMITS.calls_per_second, gt=0, allow_inf_nan=False)
    calls_burst: int = Field(default=_LIMITS.calls_burst, ge=1)
    workloads_per_tenant: int = Field(default=_LIMITS.workloads_per_tenant, ge=1)
    writes_per_tenant: int = Field(default=_LIMITS.writes_per_tenant, ge=1, le=256)
    drain_seconds: float = Field(default=5.0, ge=0, le=600)

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

    @field_validator("tls_cert_file", "tls_private_key_file", "client_ca", "admin_ca")
    @classmethod
    def _some_file(cls, value: str | None) -> str | None:
        return not_empty(value) if value is not None else None

    @model_validator(mode="after")
    def _two_ports(self) -> GatewaySettings:
        if self.port == self.health_check_port != 0:
            raise ValueError("--port and --health-check-port: want two ports, got one")
        return self


def load(given: dict[str, object], *, environment: bool = True) -> GatewaySettings:
    """The settings of a gateway; see `load_role`."""
    return load_role(GatewaySettings, given, environment=environment)
