"""The serving side of TLS: an `SSLContext` whose certificate follows the files on disk while the server runs.

A pair that does not match or cannot be read is never loaded: the old one stays in service and `problem()` says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from app.errors import UsageError
from app.text import stamp, utc_now

POLL_SECONDS = 10.0
"""How often the files are looked at: mounted Secrets change by a rename that no file watch reports reliably."""

_CONTEXT_SECONDS = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Pair:
    certificate: bytes
    key: bytes
    leaf: x509.Certificate

    @classmethod
    def read(cls, cert_file: Path, key_file: Path) -> Pair:
        """Raises ValueError or OSError, with the file in the text, where the pair cannot serve."""
        return cls.parse(cert_file.read_bytes(), key_file.read_bytes(), cert_file=cert_file, key_file=key_file)

    @classmethod
    def parse(cls, certificate: bytes, key: bytes, *, cert_file: Path | str, key_file: Path | str) -> Pair:
        """The pair that is read from these places. Raises ValueError, with the place in the text."""
        leaf = read_certificates(certificate, source=cert_file)[0]
        try:
            private = load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{key_file}: no PEM private key without a passphrase: {error}") from error
        if not belongs(private, leaf):
            raise ValueError(f"{key_file} is not the key of {cert_file}")
        return cls(certificate, key, leaf)


def belongs(key: PrivateKeyTypes, certificate: x509.Certificate) -> bool:
    return key.public_key() == certificate.public_key()


def read_certificates(pem: bytes, *, source: Path | str) -> list[x509.Certificate]:
    """At least one. Raises ValueError, with the source in the text."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError(f"{source}: no PEM certificate: {error}") from error


class ServingCertificate:
    """The certificate that is served; `context` is the one to listen with.

    New files make a new context, which each later connection gets: a pair is served whole or not at all, nothing of the
    old one stays (a certificate of another key type would), and a client CA that was removed is trusted no more. With
    `at_each_handshake` the files are looked at before each one.
    """

    def __init__(
        self,
        cert_file: str,
        key_file: str,
        *,
        new_context: Callable[[], ssl.SSLContext],
        client_cas: Sequence[str] = (),
        at_each_handshake: bool = False,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._cert_file, self._key_file = Path(cert_file), Path(key_file)
        self._client_cas = [Path(path) for path in client_cas]
        self._new_context, self._at_each_handshake, self._now = new_context, at_each_handshake, now
        self._problem = ""
        try:
            self._served, self._trusted = self._read()
            self._current = self._build(self._served, self._trusted)
            self._built = time.monotonic()
        except (OSError, ValueError) as error:
            raise UsageError(f"TLS: {fault(error)}") from error
        self.context: ssl.SSLContext = _Listening(self._for_connection)

    @property
    def not_after(self) -> datetime:
        return self._served.leaf.not_valid_after_utc

    def problem(self) -> str:
        """Why readiness must be false: files that cannot serve, a certificate out of its validity; else ""."""
        if self._problem:
            return self._problem
        now, leaf = self._now(), self._served.leaf
        if now >= leaf.not_valid_after_utc:
            return f"certificate {self._cert_file} expired at {stamp(leaf.not_valid_after_utc)}"
        if now < leaf.not_valid_before_utc:
            return f"certificate {self._cert_file} is valid only from {stamp(leaf.not_valid_before_utc)}"
        return ""

    def look(self) -> None:
        """Look at the files once. Serve what is new from now on; `problem()` reports what cannot be served."""
        try:
            pair, trusted = self._read(self._served)
            changed = pair is not self._served
            if changed or trusted != self._trusted:
                self._current = self._build(pair, trusted)
                self._served, self._trusted = pair, trusted
        except (OSError, ValueError) as error:
            if self._problem != fault(error):
                _log.warning("certificate on disk cannot be served; the old one stays", problem=fault(error))
            self._problem = fault(error)
            return
        self._problem = ""
        if changed:
            _log.info("certificate reloaded", not_after=self.not_after.isoformat())

    async def watch(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        while True:
            await asyncio.sleep(poll_seconds)
            self.look()

    def _read(self, held: Pair | None = None) -> tuple[Pair, list[bytes]]:
        """What is on disk now: the pair, which may be the one that is `held`, and the client CAs."""
        files = self._cert_file, self._key_file
        # To read a key takes far longer than to compare bytes.
        if held is None or [held.certificate, held.key] != [path.read_bytes() for path in files]:
            held = Pair.read(*files)
        return held, [path.read_bytes() for path in self._client_cas]

    def _build(self, pair: Pair, trusted: list[bytes]) -> ssl.SSLContext:
        """A context that serves exactly these bytes; raises ValueError or OSError where it cannot."""
        context = self._new_context()
        for path, pem in zip(self._client_cas, trusted, strict=True):
            try:
                context.load_verify_locations(cadata=pem.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ValueError(f"client CA {path}: no PEM certificate: {error}") from error
        try:
            # The bytes that were checked: the files may change between the check and the load.
            with _readable(pair.certificate) as certificate, _readable(pair.key) as key:
                context.load_cert_chain(certificate, key)
        except ssl.SSLError as error:
            raise ValueError(f"{self._cert_file} cannot be served: {error}") from error
        return context

    def _for_connection(self) -> ssl.SSLContext:
        """The context of the next connection: a new one each second where clients show certificates.

        A context remembers TLS 1.2 sessions, which Python cannot switch off, and a resumed session is not verified
        again: it would outlive its certificate. To build a context takes longer than a handshake, so it serves more
        than one.
        """
        if self._at_each_handshake:
            self.look()
        if self._client_cas and (now := time.monotonic()) - self._built >= _CONTEXT_SECONDS:
            self._current, self._built = self._build(self._served, self._trusted), now
        return self._current


class _Listening(ssl.SSLContext):
    """What a server listens with; each connection is wrapped by the context that `current` gives."""

    _give: Callable[[], ssl.SSLContext]

    def __new__(cls, _current: Callable[[], ssl.SSLContext]) -> Self:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, current: Callable[[], ssl.SSLContext]) -> None:
        self._give = current

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self._give().wrap_bio(*arguments, **options)


def fault(error: Exception) -> str:
    """What is wrong with a file, which the text names."""
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)


@contextlib.contextmanager
def _readable(content: bytes) -> Iterator[str]:
    """A path that reads as `content`, in memory where the system can, so that a key is not written to disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("berth-tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
