"""Connects to an API server: a client over the credentials that are found."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Self

from app.kube.client import KubeClient
from app.kube.credentials import Credentials, load_credentials
from app.kube.impersonation import Impersonation
from app.kube.session import Session

DEADLINE = 10.0


async def connect(
    *,
    kubeconfig: str | None,
    context: str | None = None,
    deadline: float = DEADLINE,
    impersonate: Impersonation | None = None,
) -> AioKubeClient:
    """A client for `kubeconfig`; None means the mounted service account, else the default kubeconfig.

    `impersonate` goes before what the kubeconfig says in `as`. Raises `UsageError` where there is no usable
    configuration. Nothing is sent yet.
    """
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    return AioKubeClient(credentials, deadline=deadline, impersonate=impersonate)


class AioKubeClient(KubeClient):
    """A client over the official one. `deadline` bounds each request in seconds, its answer's body included.

    A watch has `deadline` for its first byte and no bound after that.
    """

    def __init__(
        self, credentials: Credentials, *, deadline: float = DEADLINE, impersonate: Impersonation | None = None
    ) -> None:
        super().__init__(Session(credentials, deadline=deadline, impersonate=impersonate))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; watches under way end with an `ApiError`."""
        await self._session.close()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._session.server

    async def server_time(self) -> datetime | None:
        """What the API server's clock says, in whole seconds (UTC); None where the answer does not say it."""
        response = await self._session.open("GET", "/version", query={}, what="GET /version")
        async with response:
            try:
                return parsedate_to_datetime(response.headers.get("Date", "")).astimezone(UTC)
            except ValueError:
                return None
