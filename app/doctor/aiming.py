"""Commands that name the cluster which the user has named: what is printed can be copied as it stands. Pure.

A command without flags means the current context of the user's kubeconfig. That is another cluster where the user
named this one by `--kubeconfig` or `--context`. What a command needs of another cluster is a word in capitals; a
comment behind the command says what to put there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_PROGRAMS = ("kubectl", "helm", "berth")
_CALLING = (
    "why",
    "status",
    "doctor",
    "explain",
    "tenant",
    "certs patch",
    "certs install",
    "certs unregister",
    "policies",
)
"""The commands of Berth that talk to a cluster."""
_NESTED = r"\$\(((?:[^()]|\([^()]*\))*)\)"
_QUOTED = r"""'[^']*'|"(?:\\.|[^"\\])*\""""
_TOKEN = re.compile(
    rf"""(?P<comment>(?<![^\s])\#[^\n]*)|(?P<quoted>{_QUOTED}|{_NESTED})|(?P<end>&&|\|\|?|[;\n()])|\\.|.""",
    re.DOTALL,
)
_INNER = re.compile(_NESTED)
_BEFORE = re.compile(
    r"""(?:\s|\\\n
    |(?:do|then|else|if|elif|while|until|!|\{|time|exec|nohup|command|sudo|xargs|env|watch|timeout\s+\S+)(?=\s)
    |(?<=\s)-[adgnuILP]\s+\S+|(?<=\s)-\S+
    |\w+=(?:'[^']*'|"[^"]*"|[^\s'"])*(?=\s))*""",
    re.VERBOSE,
)
"""What may stand before the program of a command: words of the shell, programs that run another, and variables."""
_ASIDE = re.compile(rf"{_QUOTED}|{_NESTED}")
_ELSEWHERE = re.compile(r"\bin (?:the|its|another) .*\bcluster\b")
"""The comment of a command that is meant for another cluster than the one that is examined."""
_IN_PROSE = re.compile(rf"`((?:{'|'.join(_PROGRAMS)}) [^`]*)`")

PLACEHOLDERS = {
    "INFRA": "the kubeconfig of the infra cluster",
    "TENANT": "the kubeconfig of the cluster of the tenant",
    "NAME": "the tenant that the cluster of the agent belongs to",
}
"""Words of commands that the user replaces, for they cannot be known here."""
_PLACEHOLDER = re.compile(rf"(?<=[\s-])({'|'.join(PLACEHOLDERS)})(?=[\s/]|$)")


@dataclass(frozen=True, slots=True)
class Aim:
    """The flags by which the user named the cluster, "" for those that were not given."""

    kubeconfig: str = ""
    context: str = ""

    def command(self, line: str) -> str:
        """The command lines, each kubectl, helm and berth with the flags, and what to put for placeholders behind them.

        Pipes and quotes stay. So does a command with a kubeconfig or a context of its own, or with a comment that it is
        for another cluster.
        """
        return "\n".join(map(_explained, _lines(self._with_flags(line))))

    def prose(self, text: str) -> str:
        """A text in which commands stand in backticks."""
        return _IN_PROSE.sub(lambda match: f"`{self._with_flags(match[1])}`", text)

    def _with_flags(self, line: str) -> str:
        if not (self.kubeconfig or self.context):
            return line
        parts, body = list[str](), ""
        for token in _TOKEN.finditer(line):
            if token["end"] or token["comment"]:
                comment = token["comment"] or ""
                parts += [body if _ELSEWHERE.search(comment) else self._aimed(body), token[0]]
                body = ""
            elif token["quoted"] and not token[0].startswith("'"):
                body += _INNER.sub(lambda inner: f"$({self._with_flags(inner[1])})", token[0])
            else:
                body += token[0]
        return "".join([*parts, self._aimed(body)])

    def words(self, program: str) -> tuple[str, ...]:
        """The flags in the spelling of a program."""
        context = "--kube-context" if program == "helm" else "--context"
        named = {"--kubeconfig": self.kubeconfig, context: self.context}
        return tuple(word for flag, value in named.items() if value for word in (flag, value))

    def _aimed(self, body: str) -> str:
        """One command without operators."""
        before = _BEFORE.match(body)
        start = before.end() if before else 0
        words = _ASIDE.sub("''", body[start:]).split()
        program, *rest = words or [""]
        named = any(word.startswith(("--kubeconfig", "--context", "--kube-context")) for word in rest)
        calls = program != "berth" or any(" ".join(rest).startswith(command) for command in _CALLING)
        if program not in _PROGRAMS or named or not calls:
            return body
        flags, after = shlex.join(self.words(program)), start + len(program)
        if program == "kubectl":  # what follows `--` in it is for another program
            return f"{body[:after]} {flags}{body[after:]}"
        command = body.rstrip()
        return f"{command} {flags}{body[len(command) :]}"


def _lines(command: str) -> Iterator[str]:
    """As a shell reads them: a newline in quotes or behind a backslash ends none."""
    start = 0
    for token in _TOKEN.finditer(command):
        if token[0] == "\n":
            yield command[start : token.start()]
            start = token.end()
    yield command[start:]


def _explained(line: str) -> str:
    """One line of a command, with a comment that says what its placeholders are, if none says it yet."""
    words = [word for word in dict.fromkeys(_PLACEHOLDER.findall(_unquoted(line))) if f"{word}: " not in line]
    comment = ", ".join(f"{word}: {PLACEHOLDERS[word]}" for word in words)
    return f"{line}{', ' if '  # ' in line else '  # '}{comment}" if comment else line


def _unquoted(line: str) -> str:
    """Its words without comments, and without what is text: only that of commands in quotes remains."""
    parts = list[str]()
    for token in _TOKEN.finditer(line):
        if token["quoted"]:
            inner = [] if token[0].startswith("'") else _INNER.findall(token[0])
            parts += ["''", *(f" {_unquoted(command)} " for command in inner)]
        elif not token["comment"]:
            parts.append(token[0])
    return "".join(parts)


AIMLESS = Aim()
"""Of the cluster that commands without flags mean, too."""
