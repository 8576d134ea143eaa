"""The settings of the gateway's certificates in `berth certificates`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ValidationInfo, field_validator, model_validator

from app.certs.issuing import serving_names
from app.certs.settings import CertificatesSettings
from app.errors import UsageError
from app.settings.source import DnsLabel, Flag, Items
from app.tenancy.authority.ensuring import SERVICE, AuthorityOptions

_GATEWAY = "Gateway"


class AuthoritySettings(CertificatesSettings):
    """Without `gateway` nothing is kept for the gateway."""

    gateway: Annotated[bool, Flag("Keep the gateway's certificates too", _GATEWAY)] = False
    gateway_service: Annotated[DnsLabel, Flag("Its Service", _GATEWAY)] = SERVICE
    gateway_dns: Annotated[Items, Flag("One more name of the gateway; repeatable", _GATEWAY, repeatable=True)] = ()
    gateway_address: Annotated[
        Items, Flag("One more address of the gateway; repeatable", _GATEWAY, repeatable=True)
    ] = ()

    @property
    def authority_options(self) -> AuthorityOptions | None:
        if not self.gateway:
            return None
        return AuthorityOptions(
            namespace=self.namespace,
            service=self.gateway_service,
            dns=self.gateway_dns,
            addresses=self.gateway_address,
            days=self.days,
            authority_days=self.ca_days,
        )

    @field_validator("gateway_dns", "gateway_address")
    @classmethod
    def _names(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        dns, addresses = (value, ()) if info.field_name == "gateway_dns" else ((), value)
        try:
            serving_names(dns=dns, addresses=addresses)
        except UsageError as error:
            raise ValueError(str(error)) from error
        return value

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.webhook_service and not self.gateway:
            raise ValueError("nothing to keep: want --webhook-service, --gateway or both")
        return self
