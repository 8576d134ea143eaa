"""Where the API server is and who we are to it: kubeconfig or service account, loaded by `kubernetes.aio.config`.

Owns the configuration object of the official client and its renewal. The client's own loaders read files, run exec
plugins and refresh OIDC tokens; this module only says when. It sends nothing to the API server.
"""

from __future__ import annotations

import datetime as dt
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp
import structlog
import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import (
    KUBE_CONFIG_DEFAULT_LOCATION,
    ConfigException,
    kube_config,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.aio.config.openid import OpenIDRequestor

from app.errors import UsageError
from app.kube.answers import MESSAGE_LIMIT
from app.kube.impersonation import Impersonation
from app.text import one_line

log = structlog.get_logger(__name__)

# What the official loaders let escape on a bad or unreadable file, beside their own exception.
_LOAD_FAULTS = (
    ConfigException,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    yaml.YAMLError,
    aiohttp.ClientError,
)
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_RECHECK = 60.0  # seconds between looks at token files and OIDC tokens
_MAX_SKEW = 300.0  # the official loader renews an exec token only within its last five minutes


class VerifyingRequestor(OpenIDRequestor):
    """Trusts the CA that the kubeconfig names (`idp-certificate-authority-data`), else the system's.

    Version 37.0 of the official client sends the client secret and the refresh token with verification switched off,
    unless the kubeconfig names a CA. With a CA, it passes the CA's path where an SSL context is wanted. Remove this
    class when upstream verifies.
    """

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._ssl_ca_cert))


# Where the official loader looks for its own.
kube_config.OpenIDRequestor = VerifyingRequestor  # type: ignore[attr-defined]  # imported there, not exported


class Credentials(Protocol):
    """A loaded configuration and its renewal; faults are `UsageError`."""

    @property
    def configuration(self) -> Any:
        """The client's current Configuration; a new object after `reload`."""
        ...

    @property
    def impersonation(self) -> Impersonation | None:
        """Whom to act as."""
        ...

    @property
    def due(self) -> bool:
        """True when `renew` has something to do."""
        ...

    async def renew(self) -> None:
        """Renew what is about to expire."""
        ...

    async def reload(self) -> None:
        """Read everything again, because the server refused what we had."""
        ...


async def load_credentials(*, kubeconfig: str | None, context: str | None = None) -> Credentials:
    """The service account if no kubeconfig is named and one is mounted, else the kubeconfig (`$KUBECONFIG` rules)."""
    credentials: Credentials
    if kubeconfig is None and context is None and ServiceAccount.mounted():
        credentials = ServiceAccount()
    else:
        path = kubeconfig or os.environ.get("KUBECONFIG") or KUBE_CONFIG_DEFAULT_LOCATION
        credentials = KubeConfig(path, context=context)
    await credentials.reload()
    return credentials


class ServiceAccount:
    """The Pod's own identity. The official loader reads its token again every minute, through its hook."""

    def __init__(self) -> None:
        self.configuration: Any = None
        self.impersonation: Impersonation | None = None
        self.due = False

    @staticmethod
    def mounted() -> bool:
        return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and SERVICE_ACCOUNT_TOKEN.exists()

    async def renew(self) -> None:
        return

    async def reload(self) -> None:
        configuration = Configuration()
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        except _LOAD_FAULTS as error:
            raise UsageError(one_line(f"service account: {error}", MESSAGE_LIMIT)) from error
        self.configuration = configuration


class KubeConfig:
    """A kubeconfig file (or several, joined as `$KUBECONFIG` joins them) with its exec plugin or OIDC provider."""

    def __init__(self, path: str, *, context: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._context = context
        self._clock = clock
        self._loader: Any = None
        self._files: tuple[tuple[int, int], ...] = ()
        self._due = float("inf")
        self.configuration: Any = None
        self.impersonation: Impersonation | None = None

    @property
    def due(self) -> bool:
        return self._clock() >= self._due

    async def renew(self) -> None:
        try:
            await self._loader.load_and_set(self.configuration)
        except _LOAD_FAULTS as error:
            raise UsageError(one_line(f"kubeconfig {self._path}: {_text(error)}", MESSAGE_LIMIT)) from error
        finally:
            self._schedule()

    async def reload(self) -> None:
        files = self._fingerprint()
        if not files:
            raise UsageError(f"kubeconfig {self._path}: no such file")
        configuration = Configuration()
        try:
            if self._loader is not None and self._loader.provider == "oidc" and files == self._files:
                # The loader holds a refresh token newer than the file's; a fresh one would spend the old.
                await self._loader.load_and_set(configuration)
            else:
                self._loader = await load_kube_config(  # type: ignore[no-untyped-call]  # theirs
                    config_file=self._path,
                    context=self._context,
                    client_configuration=configuration,
                    persist_config=False,
                )
        except _LOAD_FAULTS as error:
            raise UsageError(one_line(f"kubeconfig {self._path}: {_text(error)}", MESSAGE_LIMIT)) from error
        try:
            _check_server(configuration.host)
            impersonation = Impersonation.of_kubeconfig(_user(self._loader))
        except ValueError as error:
            raise UsageError(one_line(f"kubeconfig {self._path}: {error}", MESSAGE_LIMIT)) from error
        if not configuration.api_key and not configuration.cert_file:
            # The official loader logs a failed exec plugin and goes on without credentials.
            log.warning("kubeconfig gives no credentials", kubeconfig=self._path)
        self._files = files
        self.configuration, self.impersonation = configuration, impersonation
        self._schedule()

    def _schedule(self) -> None:
        now = self._clock()
        expiry = getattr(self._loader, "exec_plugin_expiry", None)
        if isinstance(expiry, dt.datetime):
            left = expiry.timestamp() - now
            # Within the last fifth of a short life; at least a second, lest a plugin whose tokens are
            # born expired runs for every request.
            self._due = now + max(left - min(_MAX_SKEW, left / 5), 1.0)
        else:
            self._due = now + _RECHECK

    def _fingerprint(self) -> tuple[tuple[int, int], ...]:
        found = []
        for part in self._path.split(os.pathsep):
            path = Path(part).expanduser()
            if part and path.is_file():
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size))
        return tuple(found)


def _check_server(url: object) -> None:
    """Raises ValueError where no request can ever be sent there: waiting would not help."""
    parts = urlsplit(str(url or ""))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"the cluster's server is {str(url or '')!r}; want https://HOST[:PORT]")


def _user(loader: Any) -> dict[str, Any]:
    """The user of the active context as the file has it: the official loader reads no `as` and keeps the rest."""
    user = loader._user  # noqa: SLF001  it has no other way to it
    value = user.value if user is not None else None
    return value if isinstance(value, dict) else {}


def _text(error: BaseException) -> str:
    if isinstance(error, KeyError | TypeError | AttributeError):
        return f"is not well-formed ({type(error).__name__})"
    return str(error) or type(error).__name__
