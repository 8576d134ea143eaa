"""The certificates of a folder, as contents by file name: first issue, additions, renewal, what they hold.

Files are kept so that no reader meets a half-written set. The layout is the one that the kubelet gives mounted
Secrets: files live in a fresh folder, `..data` is a symbolic link to it, `tls.crt` and its peers are links through
`..data`. One rename of that link changes every file at once. Who opens certificate and key by name, one after the
other, can still straddle the rename; `read_files` resolves the link once and cannot. The folder before the current
one is kept, so a reader that resolved it can finish.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from app.certs.certificate_set import (
    AUTHORITY,
    AUTHORITY_DAYS,
    BRIDGE,
    BUNDLE,
    DAYS,
    SERVING,
    CertificateSet,
    Files,
    fingerprint,
    parse_bundle,
    renewal_due,
)
from app.certs.issuing import CLOCK_SKEW, Algorithm, Issued, Names, algorithm_of, extension_of, issue_leaf, names_of
from app.certs.rotation import Leaf, Wanted, client_leaf, following, serving_leaf
from app.errors import UsageError
from app.text import stamp
from app.wire import JSON

DATA = "..data"
_GENERATION = "..berth-"
_READ_ATTEMPTS = 200


@dataclass(frozen=True, slots=True)
class Renewed:
    """The next set (`files` equals the present one where nothing was due) and the stems of what was renewed."""

    files: dict[str, bytes]
    renewed: tuple[str, ...]
    next_due: datetime


def make(
    present: Files,
    *,
    names: Names,
    clients: Sequence[tuple[str, Sequence[str]]] = (),
    now: datetime,
    days: int = DAYS,
    authority_days: int = AUTHORITY_DAYS,
    algorithm: Algorithm = "ecdsa",
    new_authority: bool = False,
) -> dict[str, bytes]:
    """A serving certificate and one for each of `clients` (common name, organizations), under the CA that is there.

    A CA is made where there is none, where it is due for renewal or where `new_authority` asks for it. Other
    certificates stay while their CA does.
    """
    held = CertificateSet.parse(present)
    requested = {SERVING: serving_leaf(names, days=days, algorithm=algorithm)}
    for common_name, organizations in clients:
        requested[client_stem(common_name)] = client_leaf(
            common_name, days=days, organizations=organizations, algorithm=algorithm
        )
    leaves = {stem: Leaf(lambda *_: True, _again(pair)) for stem, pair in held.leaves.items()}
    leaves |= {stem: replace(leaf, stays=lambda *_: False) for stem, leaf in requested.items()}
    plan = Wanted(leaves, authority_days, algorithm=algorithm)
    after = following(held, plan, now=now, force="ca" if new_authority else "")
    others = [stem for stem in held.problems if stem.startswith("client-")]
    _check(held, but=[*requested, BRIDGE] if _is_new(after, held) else [*requested, *others, BUNDLE])
    return after.files


def renew(present: Files, *, now: datetime, force: bool = False) -> Renewed:
    """Renew what is due: leaves under the CA, and the CA (then every leaf) with the old one kept in the bundle.

    `force` renews all leaves, due or not; the CA only when due. Names, usages, algorithm and length of life stay.
    Raises UsageError where there is no CA with its key to sign with, or where something is damaged.
    """
    held = CertificateSet.parse(present)
    if not {f"{AUTHORITY}.crt", f"{AUTHORITY}.key"} <= present.keys():
        raise UsageError("no CA to renew with: ca.crt and ca.key are both needed")
    leaves = {stem: Leaf(lambda old, _, at: at < renewal_due(old), _again(pair)) for stem, pair in held.leaves.items()}
    plan = Wanted(leaves, _days(held.authority.certificate), algorithm=algorithm_of(held.authority.key))
    after = following(held, plan, now=now, force="certificate" if force else "")
    _check(held, but=[BRIDGE] if _is_new(after, held) else [])
    renewed = tuple(stem for stem, pair in after.pairs.items() if pair != held.pairs[stem])
    return Renewed(after.files, renewed, after.next_due)


def client_stem(common_name: str) -> str:
    """The file name, without its ending, of a client certificate; what no file name should carry becomes `-`."""
    return "client-" + (re.sub(r"[^A-Za-z0-9._-]+", "-", common_name).strip("-.") or "unnamed")


def _is_new(after: CertificateSet, held: CertificateSet) -> bool:
    """Whether the CA is another: then the bridge to the one before it is not needed, and every leaf is."""
    return after.authority != held.pairs.get(AUTHORITY)


def _check(held: CertificateSet, *, but: Sequence[str]) -> None:
    """Raise UsageError for the first thing in the folder that cannot be read, `but` for these."""
    for name, problem in held.problems.items():
        if name not in but:
            raise UsageError(problem)


def _again(old: Issued) -> Callable[[Issued, datetime], Issued]:
    """The same subject, names, usage, algorithm and length of life, with a new key."""
    usages = extension_of(old.certificate, x509.ExtendedKeyUsage) or [ExtendedKeyUsageOID.SERVER_AUTH]
    return lambda authority, now: issue_leaf(
        authority,
        subject=old.certificate.subject,
        alternatives=extension_of(old.certificate, x509.SubjectAlternativeName),
        usage=next(iter(usages)),
        span=(now - CLOCK_SKEW, now + timedelta(days=_days(old.certificate))),
        algorithm=algorithm_of(old.key),
    )


def _days(certificate: x509.Certificate) -> int:
    """The length of life in whole days, at least one; the skew allowance does not count."""
    return max(1, (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days)


def describe(files: Files, *, now: datetime) -> list[JSON]:
    """One object for each certificate in each file, chains and bundles included, by file name and position."""
    return [
        {
            "file": name,
            "position": position,
            "subject": certificate.subject.rfc4514_string(),
            "issuer": certificate.issuer.rfc4514_string(),
            "sans": names_of(certificate),
            "notBefore": stamp(certificate.not_valid_before_utc),
            "notAfter": stamp(certificate.not_valid_after_utc),
            "daysLeft": (certificate.not_valid_after_utc - now).days,
            "renewalDue": stamp(renewal_due(certificate)),
            "sha256": fingerprint(certificate),
        }
        for name in sorted(files)
        if name.endswith(".crt")
        for position, certificate in enumerate(parse_bundle(files[name], source=name))
    ]


def render(descriptions: list[JSON]) -> str:
    """The same as text, a paragraph a certificate."""
    paragraphs = []
    for item in descriptions:
        place = item["file"] + (f" (certificate {item['position'] + 1})" if item["position"] else "")
        rows = [("subject", item["subject"]), ("issuer", item["issuer"])]
        if item["sans"]:
            rows.append(("names", ", ".join(item["sans"])))
        rows.append(("valid", f"{item['notBefore']} to {item['notAfter']} ({_left(item['daysLeft'])})"))
        rows.append(("renewal due", item["renewalDue"]))
        rows.append(("sha256", item["sha256"]))
        paragraphs.append("\n".join([place, *(f"  {label + ':':<13}{value}" for label, value in rows)]))
    return "\n\n".join(paragraphs)


def _left(days: int) -> str:
    if days < 0:
        return "expired"
    return f"{days} day{'' if days == 1 else 's'} left"


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make `files` the whole set in `directory`, atomically; keys get mode 0600, the rest 0644.

    Writers exclude each other. Files that Berth did not write stay, unless they bear a name of the set. Raises
    UsageError where the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory):
            previous = _target(directory)
            generation = _write_generation(directory, files)
            _replace_link(directory / DATA, generation.name)
            for name in files:
                _show(directory, name)
            _hide_leftovers(directory, files)
            _drop_generations(directory, keep={generation.name, previous})
    except OSError as error:
        raise UsageError(f"cannot write certificates to {directory}: {error.strerror or error}") from error


def read_files(directory: Path) -> dict[str, bytes]:
    """The `*.crt` and `*.key` files of one generation, or the plain files where no Berth wrote; {} where none are.

    Raises UsageError where the directory or one of its files cannot be read.
    """
    for _ in range(_READ_ATTEMPTS):
        target = _target(directory)
        folder = directory / target
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix in {".crt", ".key"})
            files = {path.name: path.read_bytes() for path in paths}
            if folder.is_dir():
                return files
        except (FileNotFoundError, NotADirectoryError):
            if _target(directory) == target and not folder.is_dir():
                return {}
        except OSError as error:
            raise UsageError(f"cannot read certificates in {directory}: {error.strerror or error}") from error
        # Two generations went by between resolving and reading: resolve again.
    raise UsageError(f"cannot read certificates in {directory}: its files keep changing")


def _target(directory: Path) -> str:
    """The name of the current generation's folder, "" where there is none."""
    try:
        return str((directory / DATA).readlink())
    except OSError:
        return ""


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_generation(directory: Path, files: Mapping[str, bytes]) -> Path:
    generation = Path(tempfile.mkdtemp(prefix=_GENERATION, dir=directory))
    try:
        for name, content in files.items():
            _write_file(generation / name, content, mode=0o600 if name.endswith(".key") else 0o644)
        generation.chmod(0o755)  # mkdtemp's 0700 would hide the certificates too; the keys have modes of their own
    except OSError:
        # On a full disk every try would leave more behind, and a half is of no use to anybody.
        shutil.rmtree(generation, ignore_errors=True)
        raise
    return generation


def _write_file(path: Path, content: bytes, *, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), mode)  # whatever the umask says
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace_link(link: Path, target: str) -> None:
    fresh = link.with_name(f"{_GENERATION}link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)


def _show(directory: Path, name: str) -> None:
    link, target = directory / name, f"{DATA}/{name}"
    if not link.is_symlink() or str(link.readlink()) != target:
        _replace_link(link, target)


def _hide_leftovers(directory: Path, files: Mapping[str, bytes]) -> None:
    for link in directory.iterdir():
        if link.is_symlink() and link.name not in files and str(link.readlink()) == f"{DATA}/{link.name}":
            link.unlink()


def _drop_generations(directory: Path, *, keep: set[str]) -> None:
    for folder in directory.glob(f"{_GENERATION}*"):
        if folder.name not in keep and folder.is_dir() and not folder.is_symlink():
            # A reader that has resolved its name must find the whole folder or none.
            shutil.rmtree(folder.rename(f"{folder}.gone"))
