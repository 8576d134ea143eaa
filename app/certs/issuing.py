"""Issues certificates: a CA, serving and client certificates, and the bridge from an old CA to its successor.

Pure but for the randomness of keys and serial numbers: no files, no clock (`now` is passed in, aware and UTC), no
cluster. Extensions follow RFC 5280 as strict verifiers read it (Go, OpenSSL's X509_STRICT): critical basic
constraints, key usages, subject and authority key identifiers on everything below a root.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.errors import UsageError

Algorithm = Literal["ecdsa", "rsa"]
_Extension = TypeVar("_Extension", bound=x509.ExtensionType)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

CLOCK_SKEW = timedelta(minutes=5)
"""How far a certificate's validity starts in the past: the verifier's clock may be behind ours."""

_DNS = re.compile(r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
COMMON_NAME_LIMIT = 64  # ub-common-name of RFC 5280


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its private key, and what a server sends after it (`chain`) so that old trust still reaches it."""

    certificate: x509.Certificate
    key: PrivateKey = field(repr=False, compare=False)  # of the certificate
    chain: tuple[x509.Certificate, ...] = ()
    source: tuple[bytes, bytes] = field(default=(b"", b""), repr=False, compare=False)
    """The PEM texts that it was read from, if any: they are written again as they were."""

    @property
    def certificate_pem(self) -> bytes:
        """The certificate followed by its chain."""
        return self.source[0] or b"".join(map(encode_certificate, (self.certificate, *self.chain)))

    @property
    def key_pem(self) -> bytes:
        """The private key, PKCS #8, not encrypted."""
        return self.source[1] or self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def with_chain(self, chain: Iterable[x509.Certificate]) -> Issued:
        """The same certificate and key, to be sent with this chain."""
        return Issued(self.certificate, self.key, tuple(chain), (b"", self.source[1]))


@dataclass(frozen=True, slots=True)
class Names:
    """What a serving certificate answers to. Build it with `serving_names`, which checks every part."""

    dns: tuple[str, ...] = ()
    addresses: tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, ...] = ()

    @property
    def common_name(self) -> str:
        """The most telling name that fits into a common name; verifiers read the SANs alone."""
        in_cluster = [name for name in self.dns if name.endswith(".svc")]
        candidates = [*in_cluster, *self.dns, *map(str, self.addresses)]
        return next((name for name in candidates if len(name) <= COMMON_NAME_LIMIT), "berth")

    def joined(self, certificate: x509.Certificate) -> Names:
        """These, and the names of the certificate."""
        others = extension_of(certificate, x509.SubjectAlternativeName) or x509.SubjectAlternativeName([])
        return serving_names(
            dns=[*self.dns, *others.get_values_for_type(x509.DNSName)],
            addresses=[*map(str, self.addresses), *map(str, others.get_values_for_type(x509.IPAddress))],
        )


def serving_names(
    *, service: str = "", namespace: str = "default", dns: Sequence[str] = (), addresses: Sequence[str] = ()
) -> Names:
    """The SANs of a Service (`s`, `s.ns`, `s.ns.svc`, `s.ns.svc.cluster.local`) and of extra names, each once.

    Without any name at all: the loopback names. Raises UsageError for what is not a DNS name or IP address.
    """
    suffixes = ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")
    names = [*(f"{service}{suffix}" for suffix in suffixes if service), *dns]
    if not names and not addresses:
        names, addresses = ["localhost"], ["127.0.0.1", "::1"]
    for name in names:
        if len(name) > 253 or not _DNS.match(name) or any(len(label) > 63 for label in name.split(".")):
            raise UsageError(
                f"{name!r} is not a DNS name (lower-case letters, digits, '-' and '.', at most 63 a label)"
            )
    parsed = []
    for address in addresses:
        try:
            parsed.append(ipaddress.ip_address(address))
        except ValueError as error:
            raise UsageError(f"{address!r} is not an IP address") from error
    return Names(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(parsed)))


def issue_authority(*, common_name: str, now: datetime, days: int, algorithm: Algorithm = "ecdsa") -> Issued:
    """A self-signed CA. A part of its key's fingerprint is in the subject, so no two CAs share one."""
    key = _new_key(algorithm)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    subject = _subject(f"{common_name} {identifier.digest.hex()[:8]}")
    return Issued(_sign(None, key, subject, _span(now, days), _key_usage(authority=True)), key)


def issue_serving(
    authority: Issued, *, names: Names, now: datetime, days: int, algorithm: Algorithm = "ecdsa"
) -> Issued:
    """A certificate for a TLS server; it never outlives its CA."""
    alternatives = x509.SubjectAlternativeName(
        [*(x509.DNSName(name) for name in names.dns), *(x509.IPAddress(address) for address in names.addresses)]
    )
    return issue_leaf(
        authority,
        subject=_subject(names.common_name),
        alternatives=alternatives,
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        span=_span(now, days),
        algorithm=algorithm,
    )


def issue_client(
    authority: Issued,
    *,
    common_name: str,
    organizations: Sequence[str] = (),
    dns: Sequence[str] = (),
    now: datetime,
    days: int,
    algorithm: Algorithm = "ecdsa",
) -> Issued:
    """A certificate for a TLS client; Kubernetes reads CN as the user and O as its groups."""
    return issue_leaf(
        authority,
        subject=_subject(common_name, organizations),
        alternatives=x509.SubjectAlternativeName(map(x509.DNSName, dns)) if dns else None,
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        span=_span(now, days),
        algorithm=algorithm,
    )


def issue_leaf(
    authority: Issued,
    *,
    subject: x509.Name,
    alternatives: x509.SubjectAlternativeName | None,
    usage: x509.ObjectIdentifier,
    span: tuple[datetime, datetime],
    algorithm: Algorithm,
) -> Issued:
    """An end-entity certificate with a key of its own, clipped to the CA's validity; carries the CA's chain."""
    # RSA key exchange (TLS 1.2) enciphers with the certificate's key; ECDSA keys only sign.
    key, extensions = _new_key(algorithm), [x509.ExtendedKeyUsage([usage]), *filter(None, [alternatives])]
    certificate = _sign(authority, key, subject, span, _key_usage(enciphers=algorithm == "rsa"), *extensions)
    return Issued(certificate, key, authority.chain)


def bridge(old: Issued, new: Issued) -> x509.Certificate:
    """The new CA's name and key, signed by the old CA.

    Sent along with certificates of the new CA, it lets a client that still trusts the old one alone verify them,
    so the order in which servers and caBundles change does not matter.
    """
    made = new.certificate
    span = (made.not_valid_before_utc, made.not_valid_after_utc)
    return _sign(old, new.key, made.subject, span, _key_usage(authority=True))


def extension_of(certificate: x509.Certificate, kind: type[_Extension]) -> _Extension | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def names_of(certificate: x509.Certificate) -> list[str]:
    """Its SANs that are DNS names or IP addresses, as text, in order."""
    names = extension_of(certificate, x509.SubjectAlternativeName) or ()
    return [str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress)]


def answers_to(certificate: x509.Certificate, names: Names) -> bool:
    """Whether the certificate carries every one of `names`."""
    return {*names.dns, *map(str, names.addresses)} <= set(names_of(certificate))


def signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def algorithm_of(key: PrivateKey) -> Algorithm:
    return "rsa" if isinstance(key, rsa.RSAPrivateKey) else "ecdsa"


def common_name_of(certificate: x509.Certificate) -> str:
    """The subject's CN, or the whole subject where it has none."""
    attributes = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attributes[0].value) if attributes else certificate.subject.rfc4514_string()


def encode_certificate(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _new_key(algorithm: Algorithm) -> PrivateKey:
    if algorithm == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=3072)
    return ec.generate_private_key(ec.SECP256R1())


def _subject(common_name: str, organizations: Sequence[str] = ()) -> x509.Name:
    parts = [
        *((NameOID.ORGANIZATION_NAME, organization) for organization in organizations),
        (NameOID.COMMON_NAME, common_name),
    ]
    try:
        return x509.Name([x509.NameAttribute(*part) for part in parts])
    except ValueError as error:
        raise UsageError(f"{common_name!r} cannot be the subject of a certificate: {error}") from error


def _span(now: datetime, days: int) -> tuple[datetime, datetime]:
    if days < 1:
        raise UsageError(f"a certificate is valid for at least one day, got {days}")
    try:
        return now - CLOCK_SKEW, now + timedelta(days=days)
    except OverflowError as error:
        raise UsageError(f"{days} days from now is past the calendar's end") from error


def _sign(
    authority: Issued | None,
    key: PrivateKey,
    subject: x509.Name,
    span: tuple[datetime, datetime],
    usage: x509.KeyUsage,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:
    """A certificate of `key`, clipped to the validity of `authority`; signed by itself where there is none."""
    start, end = span
    if authority is not None:
        issuer = authority.certificate
        start, end = max(start, issuer.not_valid_before_utc), min(end, issuer.not_valid_after_utc)
        if end <= start:
            raise UsageError(f"the CA {common_name_of(issuer)!r} is not valid at that time; renew it first")
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        extensions += (x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        # No path length: a bridge stands between an old CA and the leaf of the new one.
        .add_extension(x509.BasicConstraints(ca=usage.key_cert_sign, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key if authority is None else authority.key, hashes.SHA256())


def _key_usage(*, authority: bool = False, enciphers: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=enciphers,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
