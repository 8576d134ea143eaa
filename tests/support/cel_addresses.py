"""Expressions with the IP and CIDR functions of Kubernetes, and their values on an API server."""

EXPRESSIONS = (
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
)
