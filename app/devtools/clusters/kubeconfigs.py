"""Kubeconfigs of the sandbox: how they are written, and copies of given ones that stand alone or act as another."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from app.errors import UsageError
from app.wire import load_yaml

_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def standing_alone(path: Path) -> str:
    """The kubeconfig at `path` with absolute paths in it, so that a copy elsewhere says the same."""
    try:
        config = load_yaml(path.read_text(encoding="utf-8"))
        entries = [named[kind] for kind in ("cluster", "user") for named in config[f"{kind}s"]]
        for entry in entries:
            entry.update({key: str((path.parent / entry[key]).absolute()) for key in _PATHS if entry.get(key)})
    except OSError as error:
        raise UsageError(f"--kubeconfig {path}: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--kubeconfig {path}: not a kubeconfig") from error
    return yaml.safe_dump(config)


def acting_as(path: Path, account: str) -> str:
    """The kubeconfig at `path` for requests on behalf of `account`."""
    config = load_yaml(path.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"]["as"] = account
    return yaml.safe_dump(config)


def write_private(path: Path, content: str | bytes) -> None:
    """A kubeconfig or a key: only its owner may read it, from the first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
