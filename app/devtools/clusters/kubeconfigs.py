"""Kubeconfigs of the sandbox: how they are written, copies that stand alone or act as another, and all in one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from app.errors import UsageError
from app.wire import JSON, load_yaml

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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"--kubeconfig {path}: not a kubeconfig") from error
    return yaml.safe_dump(config)


def acting_as(path: Path, account: str) -> str:
    """The kubeconfig at `path` for requests on behalf of `account`."""
    config = load_yaml(path.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"]["as"] = account
    return yaml.safe_dump(config)


def joined(paths: Mapping[str, Path], *, current: str) -> str:
    """One kubeconfig with a context for each of these, by the name of its cluster; `current` is the one in use."""
    config: JSON = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, path in paths.items():
        found = load_yaml(path.read_text(encoding="utf-8"))
        chosen = _named(found, "context", found["current-context"])
        for kind in ("cluster", "user"):
            config[f"{kind}s"].append({"name": name, kind: _named(found, kind, chosen[kind])})
        config["contexts"].append({"name": name, "context": {**chosen, "cluster": name, "user": name}})
    return yaml.safe_dump({**config, "current-context": current}, sort_keys=False)


def _named(config: JSON, kind: str, name: str) -> JSON:
    found: JSON = next(one[kind] for one in config[f"{kind}s"] if one["name"] == name)
    return found


def write_private(path: Path, content: str | bytes) -> None:
    """A kubeconfig or a key: only its owner may read it, from the first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
