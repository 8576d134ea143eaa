"""Says what a set of certificate files holds, for people and for programs. Pure; never shows a key."""

from __future__ import annotations

from datetime import datetime

from app.certs.bundles import fingerprint, parse_bundle
from app.certs.certificate_set import Files, renewal_due
from app.certs.issuing import names_of
from app.text import stamp
from app.wire import JSON


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
