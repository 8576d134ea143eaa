"""Commands that name the cluster as the user did: they can be copied as they stand."""

from __future__ import annotations

import pytest

from app.doctor.aiming import AIMLESS, Aim

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
        ("berth tenant resume a --kubeconfig INFRA", "berth tenant resume a --kubeconfig INFRA"),
        (
            "berth tenant rotate a && kubectl --kubeconfig TENANT apply -f secret.yaml",
            f"berth tenant rotate a {FLAGS} && kubectl --kubeconfig TENANT apply -f secret.yaml",
        ),
        # No command of ours.
        ("certutil -d . | helmet", "certutil -d . | helmet"),
    ],
)
def test_every_command_of_a_line_names_the_cluster(line: str, aimed: str) -> None:
    assert AIM.command(line) == aimed
    assert AIM.command(aimed) == aimed
    assert AIMLESS.command(line) == line


def test_one_flag_alone_is_added_alone() -> None:
    assert Aim(context="icp").command("helm list | kubectl get a") == (
        "helm list --kube-context icp | kubectl --context icp get a"
    )


def test_commands_in_backticks_of_a_text_name_it_too() -> None:
    text = "use `kubectl edit tenant a`, and not kubectl; `web-0` stays"
    assert AIM.prose(text) == f"use `kubectl {FLAGS} edit tenant a`, and not kubectl; `web-0` stays"
