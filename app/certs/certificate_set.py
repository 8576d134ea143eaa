"""What a folder or a Secret holds, parsed: a CA, the CAs to trust, and serving and client certificates.

Pure. Parsed once where it is read, and encoded once where it is written. Names of files: `ca.crt`, `ca.key`,
`ca-bundle.crt` (old and new CA while both may be trusted), `ca-bridge.crt` (the CA signed by the one before it),
`tls.crt`, `tls.key`, `client-<cn>.crt`, `client-<cn>.key`. A bundle holds each CA once, newest trust first, and none
that has expired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from app.certs.issuing import Issued, encode_certificate, signed_by
from app.errors import UsageError
from app.serving.tls import belongs

AUTHORITY = "ca"
SERVING = "tls"
BUNDLE = "ca-bundle.crt"
BRIDGE = "ca-bridge.crt"
AUTHORITY_NAME = "Berth CA"
AUTHORITY_DAYS = 3650
DAYS = 365
MOST = 16
"""CAs that a bundle remembers: it is part of an object that has an end, and each is one more that may be stolen."""
Keeps = Callable[[x509.Certificate], bool]
"""Whether a CA that is trusted already stays trusted. Without such a function every one stays."""
_BEGIN = b"-----BEGIN CERTIFICATE-----"

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class CertificateSet:
    """Certificates with their keys by stem (the chain of the CA: its bridges), and the CAs that callers are to trust.

    `problems` says by stem or file what is there and cannot be used; `others` are the files that are no part of it.
    """

    pairs: Mapping[str, Issued] = field(default_factory=dict)
    trusted: tuple[x509.Certificate, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict, compare=False)
    others: Files = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, files: Files, *, leaves: Sequence[str] | None = None) -> CertificateSet:
        """The CA, and the leaves of these stems: all that are there, if None."""
        problems: dict[str, str] = {}
        pairs = {}
        stems = [stem for stem in leaf_stems(files) if leaves is None or stem in leaves]
        for stem in [AUTHORITY, *stems] if f"{AUTHORITY}.key" in files else stems:
            try:
                pairs[stem] = load(files, stem)
            except UsageError as error:
                problems[stem] = str(error)
        bundles = {name: _bundle(files, name, problems) for name in (BUNDLE, BRIDGE, f"{AUTHORITY}.crt")}
        if AUTHORITY in pairs:
            pairs[AUTHORITY] = replace(pairs[AUTHORITY], chain=bundles[BRIDGE])
        names = {BUNDLE, BRIDGE, *(f"{stem}{ending}" for stem in pairs for ending in (".crt", ".key"))}
        others = {name: content for name, content in files.items() if name not in names}
        return cls(pairs, bundles[BUNDLE] or bundles[f"{AUTHORITY}.crt"], problems, others)

    @property
    def files(self) -> dict[str, bytes]:
        """The contents by name; what was parsed and has not changed is what it was."""
        files = dict(self.others)
        for stem, pair in self.pairs.items():
            files |= {f"{stem}.crt": pair.certificate_pem, f"{stem}.key": pair.key_pem}
        if AUTHORITY in self.pairs:
            bridges = self.authority.chain
            files[f"{AUTHORITY}.crt"] = self.authority.source[0] or encode_certificate(self.authority.certificate)
            files |= {BRIDGE: encode_bundle(bridges)} if bridges else {}
        return files | ({BUNDLE: self.bundle} if self.trusted else {})

    @property
    def bundle(self) -> bytes:
        """The CAs to trust, as PEM."""
        return encode_bundle(self.trusted)

    @property
    def authority(self) -> Issued:
        return self.pair(AUTHORITY)

    @property
    def serving(self) -> Issued:
        return self.pair(SERVING)

    @property
    def leaves(self) -> dict[str, Issued]:
        return {stem: pair for stem, pair in self.pairs.items() if stem != AUTHORITY}

    @property
    def can_sign(self) -> bool:
        """Whether there is a CA with its key."""
        return AUTHORITY in self.pairs

    @property
    def signed_by_own_authority(self) -> bool:
        """Whether the serving certificate is whole and the CA beside it has signed it."""
        return {AUTHORITY, SERVING} <= self.pairs.keys() and signed_by(
            self.serving.certificate, self.authority.certificate
        )

    @property
    def next_due(self) -> datetime:
        """When the first of its certificates is due for renewal."""
        return min(renewal_due(pair.certificate) for pair in self.pairs.values())

    def pair(self, stem: str) -> Issued:
        """Raises UsageError, which says what is wrong with it."""
        if stem not in self.pairs:
            raise UsageError(self.problems.get(stem) or f"{stem}.crt is missing")
        return self.pairs[stem]

    def signer(self, now: datetime) -> Issued:
        """The CA, with the bridges to it that have not expired."""
        return self.authority.with_chain(link for link in self.authority.chain if link.not_valid_after_utc > now)


def renewal_due(certificate: x509.Certificate) -> datetime:
    """When less than a third of the certificate's lifetime is left."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - (end - start) / 3


def leaf_stems(files: Files) -> list[str]:
    """The stems of all certificates but CAs, the serving one first."""
    stems = (name.removesuffix(".crt") for name in files if name.endswith(".crt"))
    return sorted((stem for stem in stems if stem == SERVING or stem.startswith("client-")), reverse=True)


def load(files: Files, stem: str) -> Issued:
    """The certificate, chain and key under one stem. Raises UsageError for broken, missing or mismatched ones."""
    try:
        certificates = parse_bundle(files[f"{stem}.crt"], source=f"{stem}.crt")
        key = serialization.load_pem_private_key(files[f"{stem}.key"], password=None)
    except KeyError as error:
        raise UsageError(f"{error.args[0]} is missing") from error
    except (ValueError, TypeError) as error:
        raise UsageError(f"{stem}.key cannot be read: {error}") from error
    if not certificates:
        raise UsageError(f"{stem}.crt holds no certificate")
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UsageError(f"{stem}.key is neither an ECDSA nor an RSA key")
    if not belongs(key, certificates[0]):
        raise UsageError(f"{stem}.key does not belong to {stem}.crt")
    source = (files[f"{stem}.crt"], files[f"{stem}.key"])
    return Issued(certificates[0], key, tuple(certificates[1:]), source)


def _bundle(files: Files, name: str, problems: dict[str, str]) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(parse_bundle(files.get(name, b""), source=name))
    except UsageError as error:
        problems[name] = str(error)
        return ()


def parse_bundle(pem: bytes, *, source: str) -> list[x509.Certificate]:
    """The certificates of `pem`, in order; [] for a text without any. Raises UsageError for a broken one."""
    if _BEGIN not in pem:
        return []
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise UsageError(f"{source}: a certificate in it cannot be read: {error}") from error


def overlap(
    current: Iterable[x509.Certificate], earlier: Iterable[x509.Certificate], *, now: datetime
) -> list[x509.Certificate]:
    """`current` and then what of `earlier` has not expired, each certificate once and `MOST` in all.

    A current certificate stays even where it has expired: dropping it would leave nothing that explains the failure.
    """
    kept = {fingerprint(certificate): certificate for certificate in current}
    for certificate in earlier:
        if len(kept) < MOST and certificate.not_valid_after_utc > now:
            kept.setdefault(fingerprint(certificate), certificate)
    return list(kept.values())


def encode_bundle(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(encode_certificate(certificate) for certificate in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256, lower-case hexadecimal without separators."""
    return certificate.fingerprint(hashes.SHA256()).hex()
