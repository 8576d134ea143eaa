"""Where the API server is and who we are to it: kubeconfig or service account, and the user that we act as.

The loaders of the official client read files, run exec plugins and refresh OIDC tokens; this module says when.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import ssl
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import structlog

from app.errors import UsageError
from app.kube.answers import MESSAGE_LIMIT
from app.kube.official import Configuration, OpenIDRequestor, aiohttp, config
from app.text import enumerated, one_line, quoted
from app.wire import load_yaml

log = structlog.get_logger(__name__)

SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_AT_HOME = "~/.kube/config"
_OWN_NAMESPACE = "namespace"
"""The file beside the token that has the namespace of the Pod."""
_RECHECK = 60.0  # seconds between looks at token files and OIDC tokens
_MAX_SKEW = 300.0  # the official loader renews an exec token only within its last five minutes


class UnredirectedResponse(aiohttp.ClientResponse):
    """An answer 3xx is an error: what it leads to must not get our credentials.

    The official client follows redirects, and has no option for it. An API server answers none of our requests so.
    """

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        response = await super().start(connection)
        if 300 <= self.status < 400:
            raise aiohttp.ClientError(f"HTTP {self.status}: the answer is a redirect, and no redirect is followed")
        return response


class VerifyingRequestor(OpenIDRequestor):
    """Trusts the CA that the kubeconfig names (`idp-certificate-authority-data`), else the system's.

    Version 37.0 of the official client sends the client secret and the refresh token with verification switched off,
    unless the kubeconfig names a CA. With a CA, it passes the CA's path where an SSL context is wanted. Remove this
    class when upstream verifies.
    """

    def _get_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self._ssl_ca_cert))

    def _client_session(self) -> aiohttp.ClientSession:
        """As upstream has it, but no redirect gets the client secret and the refresh token."""
        return aiohttp.ClientSession(
            headers=self._default_headers,
            connector=self._get_connector(),
            auth=aiohttp.BasicAuth(self._client_id, self._client_secret),
            raise_for_status=True,
            trust_env=True,
            response_class=UnredirectedResponse,
        )


def _load(file: Any) -> Any:
    """What an open kubeconfig says, in the encoding that its byte order mark names."""
    return load_yaml(getattr(file, "buffer", file).read())


# Where the official loader looks for its own.
config.kube_config.yaml = SimpleNamespace(safe_load=_load)  # type: ignore[assignment,attr-defined]  # kubectl's YAML
config.kube_config.OpenIDRequestor = VerifyingRequestor  # type: ignore[attr-defined]  # imported there, not exported
_Merger: Any = config.kube_config.KubeConfigMerger


class _FirstWins(_Merger):  # type: ignore[misc]  # theirs has no types
    """Of several files, the first that sets the current context counts, as in kubectl; upstream takes the last.

    A file without content adds nothing.
    """

    def load_config(self, path: str) -> None:
        with Path(path).open(encoding="utf-8") as file:
            if _load(file) is None:
                return
        present = self.config_merged and self.config_merged.value.get("current-context")
        super().load_config(path)
        if present:
            self.config_merged.value["current-context"] = present


setattr(config.kube_config, _Merger.__name__, _FirstWins)  # where the official loader looks for its own


_UNRESERVED = "!#$&'*+-.^_`|~"
"""What a header's name may hold beside letters and digits (RFC 9110, 5.6.2); the rest is percent-encoded."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to act as, as in a kubeconfig's `as` fields.

    The API server wants a user with anything else, and adds a service account's groups itself. See
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation.

    Raises ValueError for what headers do not say as it is: they lose spaces at both ends, and so may name another.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        for text in (self.user, *self.groups, *(value for values in (self.extra or {}).values() for value in values)):
            _check_header(text)
        if self.uid:
            _check_header(self.uid)
        for key in self.extra or {}:
            _check_header(key)

    @classmethod
    def of_kubeconfig(cls, user: Mapping[str, Any]) -> Impersonation | None:
        """What the fields of a kubeconfig's user ask for; raises ValueError for those that mean nothing."""
        name = user.get("as") or ""
        groups, extra, uid = user.get("as-groups") or [], user.get("as-user-extra") or {}, user.get("as-uid") or ""
        if not name:
            if groups or extra or uid:
                raise ValueError("as-uid, as-groups and as-user-extra want a user in `as`")
            return None
        if not (
            isinstance(groups, list) and isinstance(extra, dict) and all(isinstance(v, list) for v in extra.values())
        ):
            raise ValueError("want a list in as-groups, and lists by key in as-user-extra")
        values = {str(key): tuple(map(str, found)) for key, found in extra.items()}
        return cls(str(name), tuple(map(str, groups)), str(uid), values)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        headers = [("Impersonate-User", self.user)]
        headers += [("Impersonate-Group", group) for group in self.groups]
        headers += [("Impersonate-Uid", self.uid)] if self.uid else []
        for key, values in (self.extra or {}).items():
            name = f"Impersonate-Extra-{quote(key.lower(), safe=_UNRESERVED)}"
            headers += [(name, value) for value in values]
        return tuple(headers)


class Credentials:
    """A loaded configuration and its renewal; faults are `UsageError`."""

    configuration: Any = None
    """The client's current Configuration; a new object after `reload`."""
    impersonation: Impersonation | None = None
    source: str = ""
    """What named the API server, for messages: the kubeconfig and its context, or the service account."""
    namespace: str = "default"
    """That of objects whose namespace is not given."""

    @property
    def due(self) -> bool:
        """True when `renew` has something to do."""
        return False

    async def renew(self) -> None:
        """Renew what is about to expire."""

    async def reload(self) -> None:
        """Read everything again, because the server refused what we had."""
        raise NotImplementedError


async def load_credentials(*, kubeconfig: str | None, context: str | None = None) -> Credentials:
    """By the kubeconfig, else `$KUBECONFIG`, else in-cluster, else ~/.kube/config.

    A context is looked for in a kubeconfig alone.
    """
    credentials: Credentials
    named = kubeconfig or os.environ.get("KUBECONFIG")
    mounted = os.environ.get("KUBERNETES_SERVICE_HOST") and SERVICE_ACCOUNT_TOKEN.exists()  # noqa: ASYNC240
    if not named and context is None and mounted:
        credentials = ServiceAccount()
    else:
        instead = "" if named else _sandbox_hint()
        credentials = KubeConfig(named or _AT_HOME, context=context, instead=instead)
    await credentials.reload()
    return credentials


def _sandbox_hint() -> str:
    """What to type if a sandbox runs in this folder; "" if none does."""
    here = Path(".sandbox/kubeconfig")
    return f"; a sandbox runs here: export KUBECONFIG={here}" if here.is_file() else ""


def context_names(kubeconfig: str | None) -> list[str]:
    """The contexts of the kubeconfig, or of the one that counts without. Raises UsageError for a bad one."""
    path = kubeconfig or os.environ.get("KUBECONFIG") or _AT_HOME
    with _reported(f"kubeconfig {path}"):
        return _contexts(path)


class ServiceAccount(Credentials):
    """The Pod's own identity. The official loader reads its token again every minute, through its hook."""

    source = "in-cluster, the service account of the Pod"

    async def reload(self) -> None:
        configuration = Configuration()
        with _reported("service account"):
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # theirs
        with contextlib.suppress(OSError):
            own = SERVICE_ACCOUNT_TOKEN.with_name(_OWN_NAMESPACE).read_text(encoding="utf-8")
            self.namespace = own.strip() or "default"
        self.configuration = configuration


class KubeConfig(Credentials):
    """A kubeconfig file (or several, joined as `$KUBECONFIG` joins them) with its exec plugin or OIDC provider.

    `instead` is said behind the error that there is no such file.
    """

    def __init__(
        self, path: str, *, context: str | None = None, instead: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._path, self._context, self._clock, self._instead = path, context, clock, instead
        self._loader: Any = None
        self._files: tuple[tuple[int, int], ...] = ()
        self._due = float("inf")

    @property
    def due(self) -> bool:
        return self._clock() >= self._due

    async def renew(self) -> None:
        try:
            with _reported(f"kubeconfig {self._path}"):
                await self._loader.load_and_set(self.configuration)
        finally:
            self._schedule()

    async def reload(self) -> None:
        files = stamps(self._path.split(os.pathsep))
        if not files:
            raise UsageError(f"kubeconfig {self._path}: no such file{self._instead}")
        configuration = Configuration()
        with _reported(f"kubeconfig {self._path}"):
            if self._context is not None:
                _check_context(self._path, self._context)
            if self._loader is not None and self._loader.provider == "oidc" and files == self._files:
                # The loader holds a refresh token newer than the file's; a fresh one would spend the old.
                await self._loader.load_and_set(configuration)
            else:
                self._loader = await config.load_kube_config(  # type: ignore[no-untyped-call]  # theirs
                    config_file=self._path,
                    context=self._context,
                    client_configuration=configuration,
                    persist_config=False,
                )
            _check_server(configuration.host)
            impersonation = Impersonation.of_kubeconfig(_user(self._loader))
            name, self.namespace = _active(self._loader)
            self.source = f"kubeconfig {self._path}, context {name}"
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
            # Within the last fifth of a short life; at least a second, so that a plugin whose tokens are expired from
            # the start does not run for every request.
            self._due = now + max(left - min(_MAX_SKEW, left / 5), 1.0)
        else:
            self._due = now + _RECHECK


def stamps(paths: Iterable[str | None]) -> tuple[tuple[int, int], ...]:
    """What changes when the content of one of these files does. A file that is not there adds nothing."""
    found = []
    for path in filter(None, paths):
        with contextlib.suppress(OSError):
            status = Path(path).expanduser().stat()
            if stat.S_ISREG(status.st_mode):
                found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def _check_header(text: str) -> None:
    if not text or text != text.strip() or not text.isprintable():
        raise ValueError(
            f"{quoted(text)} cannot be impersonated: want printable characters, with no space at either end"
        )


def _check_context(path: str, name: str) -> None:
    """Raises ValueError for a context that the kubeconfig does not have, with those that it has."""
    names = _contexts(path)
    if name not in names:
        raise ValueError(f"there is no context {quoted(name)}: want one of {enumerated(names)}")


def _contexts(path: str) -> list[str]:
    merged = _FirstWins(path).config
    return [] if merged is None else [str(context["name"]) for context in merged.value["contexts"]]


def _check_server(url: object) -> None:
    """Raises ValueError where no request can ever be sent there: waiting would not help."""
    parts = urlsplit(str(url or ""))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError(f"the cluster's server is {str(url or '')!r}; want https://HOST[:PORT]")


def _active(loader: Any) -> tuple[str, str]:
    """The name of the active context, and the namespace that it gives."""
    active = loader._current_context  # noqa: SLF001  it has no other way to it
    return str(active["name"]), str(active["context"].safe_get("namespace") or "default")


def _user(loader: Any) -> dict[str, Any]:
    """The user of the active context as the file has it: the official loader reads no `as` and keeps the rest."""
    user = loader._user  # noqa: SLF001  it has no other way to it
    value = user.value if user is not None else None
    return value if isinstance(value, dict) else {}


@contextlib.contextmanager
def _reported(source: str) -> Iterator[None]:
    """Turns what the official loaders raise on a bad or unreadable file into a UsageError that names the `source`."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{source}: is not well-formed ({type(error).__name__})") from error
    except (config.ConfigException, OSError, ValueError, aiohttp.ClientError) as error:
        raise UsageError(one_line(f"{source}: {str(error) or type(error).__name__}", MESSAGE_LIMIT)) from error
