"""No page may send us to our own machine or network, by whatever spelling."""

from __future__ import annotations

import pytest

from penstock.errors import ChannelError
from penstock.node.outbound.guard import AddressGuard, AddressRefused, GuardedResolver, ThreadResolver
from penstock_lab.rigs.web_site import Names

PUBLIC = [
    "93.184.215.14",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "::ffff:93.184.215.14",
    "64:ff9b::5db8:d70e",
]
FORBIDDEN = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104  # loopback by another name
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",  # shared by a provider's customers
    "169.254.169.254",  # where clouds keep their secrets
    "192.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "100::1",
    "nonsense",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_fetched_from(address: str) -> None:
    assert AddressGuard().allows(address)
    assert AddressGuard().refusal(address) == ""


@pytest.mark.parametrize("address", FORBIDDEN)
def test_others_may_not(address: str) -> None:
    assert not AddressGuard().allows(address)


def test_a_refusal_is_a_sentence_and_names_are_left_to_the_resolver() -> None:
    assert AddressGuard().refusal("10.0.0.1").endswith("its network (`networks` in the configuration).")
    assert AddressGuard().refusal("example.org") == ""


def test_networks_that_the_operator_allows() -> None:
    guard = AddressGuard(["192.168.0.0/16", "::1/128"])
    assert guard.allows("192.168.1.1")
    assert guard.allows("::ffff:192.168.1.1")
    assert guard.allows("::1")
    assert not guard.allows("127.0.0.1")
    assert not guard.allows("10.0.0.1")
    with pytest.raises(ChannelError, match=r"192\.168\.0\.0/16"):
        AddressGuard(["192.168.0.1/16"])


async def test_only_checked_addresses_are_handed_out() -> None:
    names = Names({"evil.example": ["93.184.215.14", "127.0.0.1"], "local.example": ["10.0.0.1"]})
    resolver = GuardedResolver(AddressGuard(), names)
    first = await resolver.resolve("evil.example", 80)
    assert [one["host"] for one in first] == ["93.184.215.14"]
    with pytest.raises(AddressRefused, match=r"evil.example leads to 127\.0\.0\.1"):
        await resolver.resolve("evil.example", 80)
    with pytest.raises(AddressRefused):
        await resolver.resolve("local.example", 80)
    await resolver.close()


async def test_the_systems_own_resolver_finds_this_machine_and_it_is_refused() -> None:
    plain = ThreadResolver()
    found = await plain.resolve("localhost", 80)
    assert {one["host"] for one in found} <= {"127.0.0.1", "::1"}
    guarded = GuardedResolver(AddressGuard(), plain)
    for name in ("localhost", "127.1", "2130706433", "0x7f.1"):  # all of them 127.0.0.1 to the system
        with pytest.raises(AddressRefused):
            await guarded.resolve(name, 80)
    await guarded.close()
