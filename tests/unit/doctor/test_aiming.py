"""Commands that name the cluster as the user did: they can be copied as they stand."""

from __future__ import annotations

import re
import shlex

import pytest

from app.doctor.aiming import AIMLESS, Aim
from app.doctor.catalog import FINDINGS

AIM = Aim("my kube/config", "icp")
FLAGS = "--kubeconfig 'my kube/config' --context icp"
HELM = "--kubeconfig 'my kube/config' --kube-context icp"


@pytest.mark.parametrize(
    ("line", "aimed"),
    [
        ("", ""),
        ("kubectl --namespace a get pods", f"kubectl {FLAGS} --namespace a get pods"),
        ("helm upgrade berth charts/berth", f"helm upgrade berth charts/berth {HELM}"),
        ("berth why pod/web-0 -n a", f"berth why pod/web-0 -n a {FLAGS}"),
        ("berth tenant resume tenant1", f"berth tenant resume tenant1 {FLAGS}"),
        ("berth certs patch --ca ca.crt berth", f"berth certs patch --ca ca.crt berth {FLAGS}"),
        # What talks to no cluster has no such flags.
        ("berth certs renew --dir certs", "berth certs renew --dir certs"),
        ("berth crds infra | kubectl apply -f -", f"berth crds infra | kubectl {FLAGS} apply -f -"),
        # Each of several.
        (
            "helm get manifest berth | kubectl apply -f - && helm upgrade berth charts/berth",
            f"helm get manifest berth {HELM} | kubectl {FLAGS} apply -f - && helm upgrade berth charts/berth {HELM}",
        ),
        ("kubectl get a\nkubectl get b", f"kubectl {FLAGS} get a\nkubectl {FLAGS} get b"),
        (
            'kubectl get x -o yaml \\\n|| [ -z "$(kubectl get x --output name)" ]; kubectl get y',
            (
                f'kubectl {FLAGS} get x -o yaml \\\n|| [ -z "$(kubectl {FLAGS} get x --output name)" ]; '
                f"kubectl {FLAGS} get y"
            ),
        ),
        # Behind words of the shell, and behind programs that call them.
        (
            "kubectl get a -o name | xargs -r -n 1 kubectl delete",
            f"kubectl {FLAGS} get a -o name | xargs -r -n 1 kubectl {FLAGS} delete",
        ),
        ("(kubectl get a; berth status)", f"(kubectl {FLAGS} get a; berth status {FLAGS})"),
        ("sudo -u me kubectl get a", f"sudo -u me kubectl {FLAGS} get a"),
        ("A=1 EDITOR='sed -i s/a/b/' kubectl edit a", f"A=1 EDITOR='sed -i s/a/b/' kubectl {FLAGS} edit a"),
        (
            "for name in $(kubectl get a -o name); do kubectl get $name; done",
            f"for name in $(kubectl {FLAGS} get a -o name); do kubectl {FLAGS} get $name; done",
        ),
        (
            "if ! kubectl get a; then { helm list; }; fi",
            f"if ! kubectl {FLAGS} get a; then {{ helm list {HELM}; }}; fi",
        ),
        ("helm get values $(kubectl get a) -n b", f"helm get values $(kubectl {FLAGS} get a) -n b {HELM}"),
        ("kubectl get a | \\\n  kubectl apply -f -", f"kubectl {FLAGS} get a | \\\n  kubectl {FLAGS} apply -f -"),
        # Operators and names of programs within quotes are none.
        (
            """kubectl patch a b --patch '[{"value": "x | kubectl get y && z # in the other cluster"}]'""",
            f"""kubectl {FLAGS} patch a b --patch '[{{"value": "x | kubectl get y && z # in the other cluster"}}]'""",
        ),
        ("kubectl debug node/a -it -- chroot /host date", f"kubectl {FLAGS} debug node/a -it -- chroot /host date"),
        # A remark stays behind the command.
        ("berth tenant list  # those here", f"berth tenant list {FLAGS}  # those here"),
        # Meant for another cluster.
        ("kubectl edit a b  # in the tenant's cluster", "kubectl edit a b  # in the tenant's cluster"),
        ("berth tenant resume a --kubeconfig ../icp", "berth tenant resume a --kubeconfig ../icp"),
        (
            "berth tenant rotate a && kubectl --kubeconfig ../ocp apply -f secret.yaml",
            f"berth tenant rotate a {FLAGS} && kubectl --kubeconfig ../ocp apply -f secret.yaml",
        ),
        # No command of ours.
        ("certutil -d . | helmet", "certutil -d . | helmet"),
        ("grep kubectl a | xargs echo kubectl", "grep kubectl a | xargs echo kubectl"),
    ],
)
def test_every_command_of_a_line_names_the_cluster(line: str, aimed: str) -> None:
    assert AIM.command(line) == aimed
    assert AIM.command(aimed) == aimed
    assert AIMLESS.command(line) == line


_OWN = re.compile(r"(--kubeconfig|--context|--kube-context)[ =]|# in ")
"""Of a command that names a cluster itself, or says in a remark that it is for another."""
_PROGRAM = re.compile(r"(?<![-\w./=])(kubectl|helm|berth)(?= )(?P<rest>[^|;&\n)]*)")
_LOCAL = ("certs init", "certs renew", "crds", "rmd ")
"""Commands of Berth that talk to no cluster."""


def catalog_commands() -> list[tuple[str, str]]:
    """Each command of the catalog, with words in place of its fields."""
    texts = [(code, declared.texts(case)) for code, declared in FINDINGS.items() for case in ("", *declared.when)]
    return [(code, re.sub(r"\{[^{}]*\}", "FIELD", text["command"])) for code, text in texts if text["command"]]


@pytest.mark.parametrize(("code", "command"), catalog_commands())
def test_every_program_of_every_printed_command_names_the_cluster(code: str, command: str) -> None:
    aimed = AIM.command(command)
    for line in aimed.replace("\\\n", " ").split("\n"):
        unquoted = re.sub(r"'[^']*'", "''", line)
        for call in _PROGRAM.finditer(unquoted):
            local = call[1] == "berth" and call["rest"].strip().startswith(_LOCAL)
            assert local or _OWN.search(unquoted[call.start() :]), (code, line)


def test_one_flag_alone_is_added_alone() -> None:
    assert Aim(context="icp").command("helm list | kubectl get a") == (
        "helm list --kube-context icp | kubectl --context icp get a"
    )


def test_commands_in_backticks_of_a_text_name_it_too() -> None:
    text = "use `kubectl edit tenant a`, and not kubectl; `web-0` stays"
    assert AIM.prose(text) == f"use `kubectl {FLAGS} edit tenant a`, and not kubectl; `web-0` stays"


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("berth tenant resume a --kubeconfig INFRA", "  # INFRA: the kubeconfig of the infra cluster"),
        (
            "kubectl get a && berth tenant rotate NAME --kubeconfig INFRA && kubectl apply -f tenant-NAME/secret.yaml",
            "  # NAME: the tenant that the cluster of the agent belongs to, INFRA: the kubeconfig of the infra cluster",
        ),
        (
            "kubectl --kubeconfig TENANT get $NODE  # NODE: one with L3 CAT",
            ", TENANT: the kubeconfig of the cluster of the tenant",
        ),
        ("kubectl get TENANTS; kubectl get INFRA_1 xTENANT", ""),
    ],
)
@pytest.mark.parametrize("aim", [AIMLESS, AIM])
def test_a_comment_says_what_to_put_for_placeholders(line: str, comment: str, aim: Aim) -> None:
    """Once, behind the line that has them; a shell leaves it out."""
    aimed = aim.command(f"{line}\nkubectl get b")
    first, second = aimed.split("\n")
    assert first.endswith(comment)
    assert first.count("  # ") == (1 if comment else 0)
    assert "#" not in second
    assert aim.command(aimed) == aimed
    assert shlex.split(AIMLESS.command(line), comments=True) == shlex.split(line, comments=True)


@pytest.mark.parametrize(
    "line",
    [
        "kubectl annotate pod x a='my NAME is'",
        'kubectl annotate pod x a="my NAME is"',
        "kubectl get pods  # NAME may be any",
        "kubectl patch pod x --patch 'a: |\n  my NAME is\n'",
    ],
)
def test_a_word_in_quotes_or_in_a_comment_is_no_placeholder(line: str) -> None:
    assert AIMLESS.command(line) == line


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("kubectl --kubeconfig INFRA \\\n  get pods", "kubectl --kubeconfig INFRA \\\n  get pods  # INFRA: "),
        ('echo "$(berth tenant list --kubeconfig INFRA)"', 'echo "$(berth tenant list --kubeconfig INFRA)"  # INFRA: '),
        ("berth tenant rotate NAME\nkubectl get pods", "berth tenant rotate NAME  # NAME: "),
    ],
)
def test_what_to_put_for_a_placeholder_stands_behind_the_whole_line(line: str, shown: str) -> None:
    assert AIMLESS.command(line).startswith(shown)
