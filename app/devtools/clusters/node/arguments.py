"""What of a Pod's arguments and environment its process may have: what a Pod of Berth's image needs, and no more.

A container shuts its process in; here it is one of this machine's, beside the administrator's kubeconfig. So commands
that write files or start others are not for Pods, no flag or variable names another identity or another address than
the Pod's, and none reaches the interpreter or the loader. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.registry import ROLES

IMAGE_COMMAND = ("webhook",)
"""What the image runs without arguments."""
_COMMANDS = (*((role.name,) for role in ROLES), ("certs", "unregister"), ("crds",), ("doctor",))
_IDENTITY = re.compile(r"--?(kubeconfig|context)(=.*)?", re.DOTALL)
_ADDRESS = re.compile(r"--?bind[-_]address(=.*)?", re.DOTALL)
_VARIABLE = re.compile(r"(BERTH|OTEL)_[A-Z0-9_]+|(POD_|NODE_)?NAME|(POD_)?NAMESPACE|POD_IP")
_NOT_THESE = ("BERTH_KUBECONFIG", "BERTH_CONTEXT", "BERTH_BIND_ADDRESS")


def refusal(arguments: Sequence[str]) -> str:
    """Why a Pod with these arguments is not started here; "" where it is."""
    if not any(tuple(arguments[: len(command)]) == command for command in _COMMANDS):
        return f"of berth, Pods run these commands alone here: {', '.join(map(' '.join, _COMMANDS))}"
    if any(_IDENTITY.fullmatch(argument) for argument in arguments):
        return "Pods act as their ServiceAccount here: --kubeconfig and --context are not for them"
    return ""


def confined(arguments: Sequence[str], *, address: str) -> list[str]:
    """The arguments of a process that listens at its Pod's address, whatever they said."""
    bound = any(_ADDRESS.fullmatch(argument) for argument in arguments)
    return [*arguments, *([f"--bind-address={address}"] if bound else [])]  # the last one counts


def is_allowed_variable(name: str) -> bool:
    """Whether a Pod may set this variable of its process."""
    return _VARIABLE.fullmatch(name) is not None and name not in _NOT_THESE
