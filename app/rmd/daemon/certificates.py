"""The client certificate for daemons that speak TLS: out of a Secret, followed while the process runs.

Without a certificate that can be used no daemon with TLS is asked: nothing falls back to plain HTTP.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from app.kube.secrets import FILES


class NoCertificate(Exception):
    """The Secret is not there, or cannot be used; the text says why."""


class Certificates:
    """`files` are those of the Secret now, None where it is missing; it may raise OSError."""

    def __init__(self, files: Callable[[], Mapping[str, bytes] | None], *, place: str) -> None:
        self._files, self._place = files, place
        self._made_of: Mapping[str, bytes] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """For a connection that begins now. Raises NoCertificate."""
        try:
            files = self._files()
        except OSError as error:
            raise NoCertificate(f"{self._place}: cannot be read: {error}") from error
        if files is None:
            raise NoCertificate(f"TLS to the daemon wants {self._place} with {', '.join(FILES)}: there is none")
        if self._context is None or files != self._made_of:
            self._context, self._made_of = self._new(files), files
        return self._context

    def _new(self, files: Mapping[str, bytes]) -> ssl.SSLContext:
        missing = [name for name in FILES if not files.get(name)]
        if missing:
            raise NoCertificate(f"{self._place}: {', '.join(missing)} missing: want {', '.join(FILES)}")
        # RMD v0.3 speaks TLS 1.2 at most.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_verify_locations(cadata=files["ca.crt"].decode("ascii"))
            with tempfile.TemporaryDirectory(prefix="berth-rmd-") as folder:
                # OpenSSL reads a key from files alone; the folder is for this user alone.
                for name in FILES[:2]:
                    Path(folder, name).write_bytes(files[name])
                context.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"), password="")
        except (ssl.SSLError, ValueError, OSError) as error:
            raise NoCertificate(f"{self._place}: cannot be used for TLS: {error}") from error
        return context
