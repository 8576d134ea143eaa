"""TLS choices as Kubernetes components spell them (IANA cipher names, VersionTLS12, curve IDs), put into an SSLContext.

Names and defaults: https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/
(--tls-cipher-suites, --tls-min-version) and the IANA TLS parameters registry.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection
from typing import Any

from app.errors import UsageError
from app.text import quoted

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

# IANA name of each TLS 1.2 suite that is considered secure -> the name that OpenSSL gives it.
_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
# TLS 1.3 suites are always all on, as in the API server itself; naming them is allowed and changes nothing.
_TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_INSECURE = (
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
)
# IANA group number -> the name that Python's ssl takes. Groups OpenSSL does not know here are skipped.
_CURVES = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519", 30: "X448"}


def minimum_version(text: str) -> ssl.TLSVersion:
    """VersionTLS12 (also for "") or VersionTLS13; raises UsageError for anything else."""
    name = text.strip() or "VersionTLS12"
    if name in _VERSIONS:
        return _VERSIONS[name]
    if name in ("VersionTLS10", "VersionTLS11"):
        raise UsageError(f"--tls-min-version {name}: want VersionTLS12 or higher")
    raise UsageError(f"--tls-min-version {name}: unknown tls version; want VersionTLS12 or VersionTLS13")


def cipher_suites(text: str) -> list[str]:
    """The OpenSSL names for a comma list of IANA names; empty for "" (the library's defaults)."""
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    suites: list[str] = []
    for name in names:
        if not name:
            raise UsageError("--tls-cipher-suites: empty TLS cipher suite name; want a comma list without gaps")
        if name in _INSECURE:
            raise UsageError(f"--tls-cipher-suites: {name} is insecure and not allowed")
        if name not in _SUITES and name not in _TLS13_SUITES:
            raise UsageError(f"--tls-cipher-suites: {name} is not supported; want some of {', '.join(_SUITES)}")
        if name in _SUITES and _SUITES[name] not in suites:
            suites.append(_SUITES[name])
    return suites


def curve_preferences(text: str) -> list[int]:
    """The group numbers in a comma list; raises UsageError for what is no 16-bit number."""
    curves: list[int] = []
    for item in text.split(",") if text.strip() else []:
        number = item.strip()
        if not number:
            raise UsageError("--tls-curve-preferences: empty TLS CurveID value; want a comma list of numbers")
        if not number.isascii() or not number.isdigit() or len(number) > 5 or int(number) > 65535:
            raise UsageError(f"--tls-curve-preferences: invalid TLS CurveID value {number[:20]!r}; want 0 to 65535")
        curves.append(int(number))
    return curves


def server_context(
    *,
    min_version: str = "",
    ciphers: str = "",
    curves: str = "",
    require_client_certificate: bool = False,
    ask_client_certificate: bool = False,
    allowed_names: Collection[str] = (),
    protocol: str = "http/1.1",
) -> tuple[ssl.SSLContext, list[str]]:
    """A server context with these choices, and warnings about what this Python cannot do.

    `allowed_names` are the common names that a required client certificate may have; empty: any. One that is only asked
    for may be missing; what is shown has to be trusted. `protocol` is the one that it speaks over TLS, by its name for
    ALPN.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = minimum_version(min_version)
    context.options |= ssl.OP_NO_RENEGOTIATION
    suites = cipher_suites(ciphers)
    if suites:
        context.set_ciphers(":".join(suites))
    warnings = _set_curves(context, curve_preferences(curves))
    context.set_alpn_protocols([protocol])
    if require_client_certificate or ask_client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED if require_client_certificate else ssl.CERT_OPTIONAL
        # A resumed session would outlive the removal of the client's CA.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        if allowed_names:
            context.sslobject_class = _only(frozenset(allowed_names))
    return context, warnings


def _only(names: frozenset[str]) -> type[ssl.SSLObject]:
    """Handshakes that fail where the client's certificate has none of these common names.

    As kube-apiserver compares them (`--requestheader-allowed-names`): exactly, and of several the last.
    """

    class Named(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            subject: Any = (self.getpeercert() or {}).get("subject", ())
            common_names = [value for part in subject for key, value in part if key == "commonName"]
            if not common_names or common_names[-1] not in names:
                error = ssl.SSLCertVerificationError("the common name is not allowed")
                name = quoted(common_names[-1]) if common_names else "none"
                error.verify_message = f"want a common name of --client-allowed-names, got {name}"
                raise error

    return Named


def _set_curves(context: ssl.SSLContext, numbers: list[int]) -> list[str]:
    flag = "--tls-curve-preferences"
    names = [_CURVES[number] for number in numbers if number in _CURVES]
    warnings = [f"{flag}: curve {n} is not available here and is skipped" for n in numbers if n not in _CURVES]
    if names and hasattr(context, "set_groups"):  # Python 3.15
        context.set_groups(":".join(names))
    elif names:
        context.set_ecdh_curve(names[0])
        if len(names) > 1:
            warnings.append(f"{flag}: this Python offers one curve; {names[0]} is used")
    return warnings
