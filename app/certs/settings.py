"""The settings of `berth certificates`, without those of the gateway's certificates."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, field_validator, model_validator

from app.certs.certificate_set import AUTHORITY_DAYS, DAYS
from app.certs.permissions import UI_SECRET, WEBHOOK_SECRET
from app.kube.names import check_dns_subdomain
from app.settings.source import CLUSTER, DnsLabel, DnsLabelOrNone, DnsSubdomain, Flag, Items, RoleSettings
from app.wiring import SYSTEM_NAMESPACE

_WEBHOOK, _UI, _LIVES = "Webhook", "Page", "Certificates"
_LONGEST = 36_500
"""Days; more than a certificate's dates can say would be a mistake anyway."""


class CertificatesSettings(RoleSettings):
    """The settings of `berth certificates`. Times are in seconds, lives of certificates in days.

    `namespace` is where the Secrets and the Services are. Without a `webhook_service` nothing is kept for a webhook.
    """

    webhook_service: Annotated[
        DnsLabelOrNone,
        Flag('Service it is called by; "" for none', _WEBHOOK),
    ] = "berth-webhook"
    webhook_secret: Annotated[DnsSubdomain, Flag("Secret of its certificate", _WEBHOOK)] = WEBHOOK_SECRET
    configuration: Annotated[
        Items,
        Flag("Webhook configurations of a name; repeatable", _WEBHOOK, repeatable=True),
    ] = ("berth",)
    ui_service: Annotated[
        DnsLabelOrNone,
        Flag('Service of berth ui; "" for none', _UI),
    ] = ""
    ui_secret: Annotated[DnsSubdomain, Flag("Secret of its certificate", _UI)] = UI_SECRET
    days: Annotated[int, Flag("Days that certificates are valid", _LIVES)] = Field(DAYS, ge=1, le=_LONGEST)
    ca_days: Annotated[int, Flag("Days that a new CA is valid", _LIVES)] = Field(AUTHORITY_DAYS, ge=1, le=_LONGEST)
    resync_seconds: Annotated[float, Flag("How often everything is reconciled again", _LIVES)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    namespace: Annotated[
        DnsLabel, Flag("Namespace of the Secrets and Services", CLUSTER, default=f"$NAMESPACE or {SYSTEM_NAMESPACE}")
    ] = Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))

    @field_validator("configuration")
    @classmethod
    def _configurations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("want at least one name of a webhook configuration")
        return tuple(dict.fromkeys(check_dns_subdomain(name) for name in value))

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.webhook_service or self.ui_service):
            raise ValueError("nothing to keep: want --webhook-service or --ui-service")
        return self
