"""Field names as CEL writes them: what is no identifier is escaped (`a-b` as `a__dash__b`, `in` as `__in__`). Pure."""

from __future__ import annotations

import re

from app.cel.syntax import RESERVED

_WORDS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_BACK = {word: text for text, word in _WORDS.items()}
_KEYWORDS = RESERVED | {"true", "false", "null", "in"}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def escaped(name: str) -> str | None:
    """The name as a rule has to write it, None where no rule can."""
    if name in _KEYWORDS:
        return f"__{name}__"
    text = re.sub(r"__|[./-]", lambda found: _WORDS[found[0]], name)
    return text if _IDENTIFIER.fullmatch(text) else None


def unescaped(name: str) -> str:
    """The field name that a rule means."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _KEYWORDS:
        return name[2:-2]
    return re.sub("__underscores__|__dot__|__dash__|__slash__", lambda found: _BACK[found[0]], name)
