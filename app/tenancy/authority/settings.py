"""The settings of the gateway's certificates in `berth certs keep`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import field_validator, model_validator

from app.certs.issuing import serving_names
from app.certs.settings import CertificatesSettings
from app.errors import UsageError
from app.settings.flags import Flag
from app.settings.source import DnsLabel, Items
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
        """What is kept for the gateway, if anything."""
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

    @field_validator("gateway_dns")
    @classmethod
    def _dns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value, dns=value)

    @field_validator("gateway_address")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value, addresses=value)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.webhook_service and not self.gateway:
            raise ValueError("nothing to keep: want --webhook-service, --gateway or both")
        return self


def _checked(value: tuple[str, ...], *, dns: tuple[str, ...] = (), addresses: tuple[str, ...] = ()) -> tuple[str, ...]:
    try:
        serving_names(dns=dns, addresses=addresses)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return value
