"""The IP and CIDR functions of Kubernetes in match conditions."""

from __future__ import annotations

import pytest

from app.cel.calls import NoValue
from app.cel.matchconditions import compile_condition
from app.cel.syntax import BadExpression
from app.cel.values import evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("isIP('10.0.0.5') && isIP('fe80::1')", True),
        (
            "isIP('10.0.0.05') || isIP('10.0.0.5/24') || isIP('fe80::1%eth0') || isIP('::ffff:10.0.0.5') || isIP('')",
            False,
        ),
        ("isCIDR('10.0.0.5/24') && isCIDR('2001:DB8::/0')", True),
        ("isCIDR('10.0.0.5') || isCIDR('10.0.0.5/33') || isCIDR('10.0.0.5/024') || isCIDR('10.0.0.5/+4')", False),
        ("isCIDR('fe80::1%eth0/64') || isCIDR('::ffff:10.0.0.5/120') || isCIDR('1.2.3.4/255.0.0.0')", False),
        ("cidr('10.0.0.5/24').ip() == ip('10.0.0.5')", True),
        ("cidr('10.0.0.5/24').masked() == cidr('10.0.0.0/24')", True),
        ("cidr('10.0.0.5/24') == cidr('10.0.0.0/24')", False),
        ("cidr('10.0.0.5/24').prefixLength() == 24", True),
        ("cidr('10.0.0.5/24').containsIP('10.0.0.200') && cidr('10.0.0.5/24').containsIP(ip('10.0.0.0'))", True),
        ("cidr('10.0.0.5/24').containsIP('10.0.1.0') || cidr('0.0.0.0/0').containsIP('::')", False),
        ("cidr('10.0.0.5/24').containsCIDR('10.0.0.128/25') && cidr('::/0').containsCIDR(cidr('fe80::/10'))", True),
        ("cidr('10.0.0.0/24').containsCIDR('10.0.0.0/23') || cidr('::/0').containsCIDR('10.0.0.0/8')", False),
        ("ip('10.0.0.5').family() == 4 && ip('::').family() == 6", True),
        ("ip('::').isUnspecified() && ip('127.9.9.9').isLoopback() && ip('fe80::1').isLinkLocalUnicast()", True),
        ("ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", True),
        ("ip('224.0.1.1').isLinkLocalMulticast() || ip('ff05::1').isLinkLocalMulticast()", False),
        ("ip('10.0.0.1').isGlobalUnicast() && ip('2001:db8::1').isGlobalUnicast()", True),
        ("['255.255.255.255', '0.0.0.0', '127.0.0.1', 'ff02::1', 'fe80::1'].exists(a, ip(a).isGlobalUnicast())", False),
        ("string(ip('2001:DB8:0::1')) == '2001:db8::1' && string(cidr('10.0.0.5/24')) == '10.0.0.5/24'", True),
        ("size(bytes('é')) == 2 && size('é') == 1", True),
    ],
)
def test_expressions(expression: str, *, value: bool) -> None:
    assert evaluate(compile_condition(expression)[0], {}) is value


@pytest.mark.parametrize(
    "expression",
    ["ip('x').isLoopback()", "cidr('10.0.0.5').ip() == ip('::')", "cidr('10.0.0.0/8').containsIP('x')",
     "cidr('::/0').containsCIDR('::')"],
)  # fmt: skip
def test_what_is_no_address_has_no_value(expression: str) -> None:
    with pytest.raises(NoValue, match="parse error during conversion from string"):
        evaluate(compile_condition(expression)[0], {})


@pytest.mark.parametrize(
    "expression", ["ip(1) == ip('::')", "ip('::').prefixLength() == 1", "cidr('::/0').isLoopback()"]
)
def test_types_are_checked(expression: str) -> None:
    with pytest.raises(BadExpression, match="found no matching overload"):
        compile_condition(expression)
