"""Values of the networks annotations, a thousand: every member with every type, addresses, names, lists. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

TEXTS = ["name", "namespace", "mac", "infiniband-guid", "interface", "interfaceRequest", "deviceID"]
NUMBERS = ["hostPort", "containerPort"]
RATES = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"]
MEMBERS = [*TEXTS, "ips", "portMappings", "bandwidth", "cni-args", "default-route"]
VALUES = [
    *("null", "true", "false", "0", "1", "-1", "1.5", "1e3", "9223372036854775808", '""', '"x"', '"1"', '"10.0.0.1"'),
    *("[]", "[null]", '["x"]', "[1]", "[[]]", "[{}]", "{}", '{"a": 1}', '{"a": null}'),
]
WHOLE = [
    *(
        "0",
        "-0",
        "80",
        "-1",
        "65536",
        "1.0",
        "1e2",
        "9223372036854775807",
        "9223372036854775808",
        '"80"',
        "null",
        "true",
    ),
    *("-9223372036854775808", "-9223372036854775809", "[]", "{}"),
]
IP_TEXTS = [
    *("10.0.0.1", "10.0.0.01", "010.0.0.1", "10.0.0.256", "10.0.0", "10.0.0.1.2", "10.0.0.-1", "10..0.1", " 10.0.0.1"),
    *("10.0.0.1 ", "0.0.0.0", "1", "0x0a000001", "10.0.0.1%eth0", "\u0661\u0660.0.0.1", "10.0.0.1\n", "x", ""),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "2001:DB8::1", "1::2::3", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", ":1::2"),
    *("1:2:3:4:5:6:7::8", "1:2:3:4:5:6:7::", "::10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.01", "12345::", "g::"),
    *("::ffff:10.0.0.1:1", "[::1]", "1:2:3:4:5:6:10.0.0.1", "1:2:3:4:5:6:7:10.0.0.1", "::1.2.3", "2001:db8::1%"),
]
PREFIXES = [
    *(
        "24",
        "0",
        "32",
        "33",
        "64",
        "128",
        "129",
        "024",
        "00000000000024",
        "+24",
        "-1",
        " 24",
        "24 ",
        "",
        "24/24",
        "2_4",
    ),
    *("255.255.255.0", "0.0.0.255", "ffff::", "\u0662\u0664", "99999999999999999999", "x", "1e1", "0x18"),
]
MACS = [
    *("02:00:00:00:00:01", "02-00-00-00-00-01", "0200.0000.0001", "02:00:00:00:00:1", "02:00:00:00:00", "02000000000"),
    *(
        "02:00:00:00:00:01:02",
        "02:00:00:00:00:00:00:01",
        "0200.0000.0000.0001",
        "02:00-00:00:00:01",
        "02.00.00.00.00.01",
    ),
    *(
        "020000000001",
        "0200000000AB",
        "02000000000g",
        "0200000000001",
        "02000000000\u0661",
        "02" * 8,
        "02" * 20,
        "02" * 7,
    ),
    *("010000000001", "000000000000"),
    *(" 02:00:00:00:00:01", "02:00:00:00:00:01 ", "0g:00:00:00:00:01", "AA:BB:cc:DD:ee:FF", "02:00:00:00:00:01:", "x"),
    *(":".join(["00"] * 20), ":".join(["02"] * 19), "00:00:00:00:00:00", "e7:00:00:00:00:01", "f1:00:00:00:00:01"),
    *(
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
        "33-33-00-00-00-01",
        "0100.5e00.0001",
        "0000.0000.0000",
        "0200:0000:0001",
    ),
    "\u06602:00:00:00:00:01",
]
INTERFACES = [
    *(
        "net1",
        "eth0",
        "eth1",
        "lo",
        "LO",
        "all",
        "default",
        ".",
        "..",
        "...",
        "a.b",
        "eth0.100",
        "net1:0",
        "a:",
        ":",
        "a/b",
    ),
    *(
        "abcdefghijklmno",
        "abcdefghijklmnop",
        "ü" * 7,
        "ü" * 8,
        "a b",
        "a\tb",
        " a",
        "a ",
        "n%d",
        "n%s",
        "a%",
        "a\x00b",
        "\x00",
    ),
    *(
        "é",
        "à",
        "a\u2028b",
        "a\u00a0b",
        "a\x85b",
        "\x1cnet1",
        "net1\x1f",
        "a\u200bb",
        "-x",
        "_",
        "A",
        "1",
        "@",
        "a,b",
        "\\",
        '"',
    ),
]
ELEMENTS = [
    *(
        "foo",
        " foo ",
        "foo,bar",
        "foo , bar",
        "foo,",
        ",foo",
        ",",
        " ",
        "\t",
        "foo,,bar",
        "/foo",
        "/ foo",
        "/",
        "foo/",
        "a/b",
    ),
    *("a /b", "a/ b", "a/b/c", "a//b", "foo@", "foo@ ", "@", "@x", "foo@a@b", "foo @ x", "foo@x/y", "a@x/b", "foo.bar"),
    *("a.b/foo", "foo_bar", "Foo", "-foo", "foo-", "f-o", "1", "a/b@c", "foo;bar", "foo bar", "foo\nbar", "\n foo\n"),
    *(
        "\u00a0foo",
        "\ufefffoo",
        "\x1cfoo",
        "foo\x1f",
        "\x85foo",
        "\u2003foo\u2003",
        "foo\u200b",
        "foo\x00",
        "null",
        "true",
    ),
    *("a" * 63, "a" * 64, "a" * 64 + "/b", "a" * 254, "f\u0131o", "foo]", "foo}", "'foo'", "foo\\", "$(foo)", "fo%6f"),
]
JSONS = [
    *(
        "[]",
        " [ ] ",
        "[null]",
        "null",
        '"foo"',
        '["foo"]',
        "[1]",
        "[true]",
        "[[]]",
        "[{}]",
        "{}",
        '{"name": "foo"}',
        "[foo]",
    ),
    *(
        '[{"name": "foo"}] ',
        '[{"name": "foo"},]',
        '[{"name": "foo",}]',
        "[{'name': 'foo'}]",
        '[{name: "foo"}]',
        "[",
        "{",
    ),
    *(
        '[{"name": "foo"}] x',
        'foo,{"name": "bar"}',
        '[{"name": "foo"} {"name": "bar"}]',
        '\ufeff[{"name": "foo"}]',
        '"',
    ),
    *('[{"name": "f\\u006fo"}]', '[{"name": "foo\\n"}]', '[{"name": "foo", "x": "\t"}]', '[{"name": "foo", "x": 01}]'),
    *(
        '[{"name": "foo", "x": NaN}]',
        '[{"name": "foo", "x": Infinity}]',
        '[{"name": "foo"}/**/]',
        '[\n{"name":"foo"}\n]',
    ),
    *(
        '[{"name": "foo", "x": 1.}]',
        '[{"name": "foo", "x": .5}]',
        '[{"name": "foo", "x": +1}]',
        '[{"name": "foo", "x": 1e}]',
        '[{"name": "foo", "x": -1e999}]',
        '[{"name": "foo", "portMappings": [{"hostPort": 1e999}]}]',
    ),
    *(
        '\u00a0[{"name": "foo"}]',
        '[{"name": "foo"}]\x00',
        '[{"name": "\\x"}]',
        '[{"name": "\\u00g0"}]',
        '[{"": "foo"}]',
    ),
    *(
        '[{"name": "default/foo"}]',
        '[{"name": "foo@net1"}]',
        '[{"name": " foo"}]',
        '[{"name": "foo.bar"}]',
        '[{"name": "A"}]',
    ),
    *(
        '[{"name": "foo", "namespace": "a.b"}]',
        '[{"name": "foo", "namespace": " a"}]',
        '[{"name": "foo", "namespace": "A"}]',
    ),
    *(
        '[{"name": "a", "Name": "b"}]',
        '[{"Name": "b", "name": "a"}]',
        '[{"name": "a", "name": null}]',
        '[{"NAME": "a"}]',
    ),
    *('[{"name": "a", "NAME": 1}]', '[{"name": 1, "name": "a"}]', '[{"name": "a", "\\u017f": 1}]', '[{"na me": "a"}]'),
    *(
        '[{"name": "a", "ip\\u017f": "x"}]',
        '[{"name": "a", "IP\\u017f": ["10.0.0.1"]}]',
        '[{"name": "a", "\\u0130ps": "x"}]',
    ),
    *(
        '[{"name": "a", "portMapping\\u017f": "x"}]',
        '[{"name": "a", "\\uff49ps": "x"}]',
        '[{"name": "a", "ips ": "x"}]',
    ),
    *(
        '[{"name": "a", "Default-Route": ["x"]}]',
        '[{"name": "a", "default_route": ["x"]}]',
        '[{"name": "a", "MAC": "x"}]',
    ),
    *('[{"name": "a", "CNI-ARGS": []}]', '[{"name": "a", "DeviceId": 1}]', '[{"name": "a", "INFINIBAND-GUID": "x"}]'),
    *(
        '[{"name": "a", "mac": "x", "mac": "02:00:00:00:00:01"}]',
        '[{"name": "a", "mac": "02:00:00:00:00:01", "MAC": null}]',
    ),
    *(
        '[{"name": "a", "interface": "x", "interfaceRequest": "y"}]',
        '[{"name": "a", "interface": "", "interfaceRequest": "y"}]',
    ),
    *('[{"name": "a", "ips": ["10.0.0.1"], "ips": null}]', '[{"name": "a", "ips": null, "ips": ["10.0.0.1"]}]'),
    *('[{"name": "a", "macRequest": "x", "ip": "y"}]', '[{"name": "a", "ipam-claim-reference": 1}]', '[{"nmae": "a"}]'),
    *('[{"name": "a", "bandwidth": {"INGRESSRATE": "1"}}]', '[{"name": "a", "portMappings": [{"HOSTPORT": "1"}]}]'),
    *(
        '[{"name": "a", "portMappings": [{"ho\\u017ftPort": "1"}]}]',
        '[{"name": "a", "portMappings": [{"ho\\ufb05Port": "1"}]}]',
    ),
    *('[{"name": "a", "cni-args": {"a": [1, {"b": null}]}}]', '[{"name": "a", "portMappings": [null, {"hostIP": 1}]}]'),
    *(
        '[{"name": "a", "portMappings": [{"protocol": "x", "hostIP": "y"}]}]',
        '[{"name": "a", "portMappings": [{"protocol": 1}]}]',
    ),
]
LISTS = [
    *(
        "a,b@net1",
        "a@net1,b",
        "a@net2,b",
        "a,b,c@net2",
        "a@x,b@x",
        "a@x,b@X",
        "a@net1,b@net2,c@net3",
        "a@net3,b,c",
        "a,a,a",
    ),
    *("a@eth0", "a,b@eth0", "a@lo", "a@net2,b@net1", "a@net10,b", "a@net01,b"),
    '[{"name": "a"}, {"name": "b", "interface": "net1"}]',
    '[{"name": "a", "interface": "x"}, {"name": "b", "interfaceRequest": "x"}]',
    '[{"name": "a", "interface": null}, {"name": "b", "interface": "net1"}]',
]
ROUTES = [
    ["10.0.0.1"],
    ["10.1.0.1"],
    ["fd00::1"],
    ["fd00::2", "10.0.0.1"],
    ["::ffff:10.0.0.1"],
    ["10.0.0.1", "10.0.0.1"],
    [],
]
DEFAULTS = [
    *("", "a", "a,b", "[]", "a/b@x", "a@eth0", "a@net1", "A", "a@net:1", '[{"name": "a", "interface": "net2"}]', " "),
    *('[{"name": "a", "default-route": ["10.0.0.1"]}]', '[{"name": "a", "mac": "e7:00:00:00:00:01"}]', "{}", "a.b"),
    '[{"name": "a", "default-route": ["10.0.0.1", "10.0.0.2"]}]',
]

Case = dict[str, str]
"""`networks`, and `default` where the Pod has an annotation for its default network."""


def cases() -> list[Case]:
    """Each once, in an order that stays."""
    return list({json.dumps(case): case for case in [*map(_case, _values()), *_with_default()]}.values())


def _case(networks: str) -> Case:
    return {"networks": networks}


def _with_default() -> Iterator[Case]:
    for default in DEFAULTS:
        for networks in ("", "a,b", '[{"name": "a", "default-route": ["10.9.0.1"]}]', "a@x,b@eth0"):
            yield {"networks": networks, "default": default}


def _values() -> Iterator[str]:
    yield from (*ELEMENTS, *JSONS, *LISTS)
    for member in MEMBERS:
        yield from (_element(f'"{member}": {value}', named=member != "name") for value in VALUES)
    for member, names in (("portMappings", NUMBERS), ("bandwidth", RATES)):
        inner = [f'{{"{name}": {value}}}' for name in names for value in WHOLE]
        yield from (_element(f'"{member}": {f"[{one}]" if member == "portMappings" else one}') for one in inner)
    yield from _addresses()
    for interface in INTERFACES:
        yield f"foo@{interface}"
        yield _element(f'"interface": {json.dumps(interface)}')
    for first, second in product(ROUTES, ROUTES):
        yield json.dumps([{"name": "a", "default-route": first}, {"name": "b", "default-route": second}])


def _addresses() -> Iterator[str]:
    for text in IP_TEXTS:
        yield from (_element(f'"{member}": {json.dumps([text])}') for member in ("ips", "default-route"))
    for address in ("10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "fe80::1%eth0", "x", "10.0.0.01"):
        yield from (_element(f'"ips": {json.dumps([f"{address}/{prefix}"])}') for prefix in PREFIXES)
    yield _element('"default-route": ["10.0.0.1/24"]')
    for mac in MACS:
        yield from (_element(f'"{member}": {json.dumps(mac)}') for member in ("mac", "infiniband-guid"))


def _element(members: str, *, named: bool = True) -> str:
    return "[{" + ('"name": "foo", ' if named else "") + members + "}]"
