"""Hosts and ports in every spelling (case DIST-13), and what a node says of its edges."""

from __future__ import annotations

import pytest

from truecluster._cli.addresses import cluster_address, edge_address, only_host, to_dial
from truecluster._cli.api import invitation
from truecluster._node.addresses import EdgeAddress
from truecluster._wire.addresses import is_loopback, shown
from truecluster.api import RequestError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("[::1]:9000", ("::1", 9000)),
        ("[::1]", ("::1", 7001)),
        ("::1", ("::1", 7001)),
        ("fe80::1%eth0", ("fe80::1%eth0", 7001)),
        ("[fe80::1%eth0]:9000", ("fe80::1%eth0", 9000)),
        ("2001:db8::7", ("2001:db8::7", 7001)),
        ("::ffff:10.0.0.1", ("::ffff:10.0.0.1", 7001)),
        ("host.example:9000", ("host.example", 9000)),
        ("host.example", ("host.example", 7001)),
        ("127.0.0.1:9000", ("127.0.0.1", 9000)),
        ("127.0.0.1", ("127.0.0.1", 7001)),
    ],
)
def test_every_spelling_of_an_address_dist_13(text: str, address: tuple[str, int]) -> None:
    assert cluster_address(text, None) == address


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (":9000", "names no host"),
        ("", "names no host"),
        ("[]:9000", "is not IPv6"),
        ("host:70000", "ports go from 1 to 65535"),
        ("[::1]:70000", "ports go from 1 to 65535"),
        ("host:0", "ports go from 1 to 65535"),
        ("host:", "ports go from 1 to 65535"),
        ("host:http", "'http' is no port"),
        ("host:90 00", "is no port"),
        ("[::1", "names no host|is not IPv6"),
        ("[host]:9000", "'host' is not IPv6. With a port"),
        ("::1:9000:x", "is not IPv6. With a port"),
        ("tcp://host:9000", "is not IPv6"),
        ("a host", "names no host"),
        ("0.0.0.0", "no address to dial"),
        ("::", "no address to dial"),
    ],
)
def test_what_is_no_address_is_named_with_the_remedy_dist_13(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        cluster_address(text, None)
    assert f"--cluster-host {text!r}" in str(caught.value)


def test_a_port_may_be_given_twice_but_not_two_of_them() -> None:
    assert cluster_address("host", 9000) == cluster_address("host:9000", 9000) == ("host", 9000)
    with pytest.raises(RequestError, match="name two ports; give one"):
        cluster_address("host:9000", 9001)


def test_an_address_to_listen_on_takes_its_port_elsewhere() -> None:
    assert only_host("[::]", "--node-host", "--node-port") == "::"
    with pytest.raises(RequestError, match=r"'\[::\]:7001' holds a port; the port goes to --node-port"):
        only_host("[::]:7001", "--node-host", "--node-port")


def test_what_others_can_dial() -> None:
    assert to_dial("192.168.1.5") == "192.168.1.5"
    assert to_dial("0.0.0.0") != "0.0.0.0"
    assert to_dial("::") != "::"


def test_addresses_are_shown_with_brackets_where_there_are_colons() -> None:
    assert shown("::1", 7001) == "[::1]:7001"
    assert shown("127.0.0.1", 7001) == "127.0.0.1:7001"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_in_every_spelling(host: str) -> None:
    assert is_loopback(host)
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("host.example")


LOCAL = "192.168.1.5"
"""The node's address towards its coordinator."""


@pytest.mark.parametrize(
    ("options", "listens", "dialled"),
    [
        ((None, 0, None), LOCAL, LOCAL),
        (("0.0.0.0", 0, None), "0.0.0.0", LOCAL),
        (("[::]", 7002, None), "::", LOCAL),
        (("10.0.0.9", 0, None), "10.0.0.9", "10.0.0.9"),
        ((None, 7002, "203.0.113.7"), LOCAL, "203.0.113.7"),
        (("0.0.0.0", 7002, "[2001:db8::7]"), "0.0.0.0", "2001:db8::7"),
        (("none", 0, None), LOCAL, None),
    ],
)
def test_where_edges_listen_and_what_neighbours_are_told(
    options: tuple[str | None, int, str | None], listens: str, dialled: str | None
) -> None:
    address = edge_address(*options)
    assert (address.listen_host(LOCAL), address.port, address.dial_host(LOCAL)) == (listens, options[1], dialled)


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/"), ("me.lan", "http://me.lan:80/")],
)
def test_the_page_is_named_as_a_browser_takes_it(host: str, url: str) -> None:
    """RFC 3986, 3.2.2: an IPv6 address stands in brackets."""
    assert f"open {url} in a browser" in invitation(host, 80)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_browser_is_not_sent_to_every_address(host: str) -> None:
    assert host not in invitation(host, 80).replace("[", "/").replace("]", "/").split("/")


def test_a_scope_id_is_told_to_nobody() -> None:
    """``%eth0`` names a network of this machine."""
    assert EdgeAddress().listen_host("fe80::1%eth0") == "fe80::1%eth0"
    assert EdgeAddress().dial_host("fe80::1%eth0") is None
    assert EdgeAddress(advertised="10.0.0.9").dial_host("fe80::1%eth0") == "10.0.0.9"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("none", 7002, None), "leave --edge-port"),
        (("none", 0, "host"), "leave --edge-port and --advertise-host out"),
        ((None, 0, "0.0.0.0"), "--advertise-host '0.0.0.0' is no address to dial"),
        ((None, 0, "host:7002"), "the port goes to --edge-port"),
        (("127.0.0.1", 0, "10.0.0.9"), "listen on 0.0.0.0"),
        (("a b", 0, None), "--edge-host 'a b' names no host"),
    ],
)
def test_edge_options_that_contradict_each_other(options: tuple[str | None, int, str | None], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        edge_address(*options)
