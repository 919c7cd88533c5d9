"""--node: contexts, hosts and URLs, and which node a command speaks to without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.api import api_address
from penstock.cli.context import store
from penstock.cli.context.store import Context, Contexts
from penstock.cli.context.target import SCHEMES, Service, address, target
from penstock.cli.options import node_login
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.cli.options import NodeLogin


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_CONTEXT", raising=False)


def keep(current: str = "", **contexts: Context) -> None:
    with store.changing() as held:
        held[0] = Contexts(current=current, contexts=contexts)


@pytest.mark.parametrize(
    ("given", "service", "url"),
    [
        ("nas", "mqtt", "mqtt://nas:1883"),
        ("nas.local", "http", "http://nas.local:8080"),
        ("nas.local:99", "stream", "stream://nas.local:99"),
        ("2001:db8::1", "mqtt", "mqtt://[2001:db8::1]:1883"),
        ("[2001:db8::1]:99", "http", "http://[2001:db8::1]:99"),
        ("mqtt://nas:99", "mqtt", "mqtt://nas:99"),
        ("wss://ann:x@nas/mqtt", "mqtt", "wss://ann:x@nas/mqtt"),
        ("wss://ann:x@nas/mqtt", "http", "https://nas:443"),
        ("mqtts://nas", "stream", "streams://nas:1884"),
        ("http://[::1]:8080/", "mqtt", "mqtt://[::1]:1883"),
        ("stream://nas", "http", "http://nas:8080"),
    ],
)
def test_one_address_leads_to_every_service(given: str, service: Service, url: str) -> None:
    assert address(given, service) == url


@pytest.mark.parametrize(
    "given",
    [
        *("nas:x", "nas:0", "nas:65536", "nas:", "a b", "a/b", "[::1]x", "ftp://nas", "://nas", "u@nas"),
        *("http://", "http://[::1", "http:///x", "\x1b[31m"),
    ],
)
def test_what_is_no_address_is_an_error_that_names_the_option(given: str) -> None:
    with pytest.raises(InputError, match="--node: "):
        address(given, "mqtt")


@given(st.text(max_size=30), st.sampled_from(sorted(set(SCHEMES.values()))))
def test_any_text_is_an_address_or_an_input_error(given: str, service: Service) -> None:
    try:
        found = address(given, service)
    except InputError:
        return
    assert SCHEMES[found.partition("://")[0]] == service
    assert address(found, service) == found


@pytest.mark.parametrize(
    ("given", "service", "url"),
    [
        ("a,b:99", "mqtt", "mqtt://a:1883,mqtt://b:99"),
        ("a, b ,a", "http", "http://a:8080,http://b:8080"),
        ("penstock://a:1,b,mqtt://c", "mqtt", "penstock://a:1,penstock://b,mqtt://c"),
        ("mqtts://a:1,b", "http", "https://a:443,https://b:443"),
        ("mqtt://a:1,a:2", "http", "http://a:8080"),
    ],
)
def test_a_list_of_nodes_leads_to_a_list_of_urls(given: str, service: Service, url: str) -> None:
    assert target(given, service).url == url


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a,", "nothing before, after or between"),
        (",a", "nothing before, after or between"),
        ("a,,b", "nothing before, after or between"),
        ("a,b:x", "'b:x'"),
        ("mqtts://a,mqtt://b", "TLS everywhere or nowhere"),
        (",".join(f"n{number}" for number in range(65)), "at most 64"),
        ("other,home", "'home' is a context"),
    ],
)
def test_what_is_no_list_is_an_error_that_says_why(given: str, said: str) -> None:
    keep(home=Context("nas"))
    with pytest.raises(InputError, match="--node: .*" + said):
        target(given, "mqtt")


def test_a_context_may_have_several_nodes_and_a_stream_is_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    keep(ward=Context("a,b:99", http="http://a:1,http://b:2"), plain=Context("a,b"))
    assert target("ward", "mqtt").url == "mqtt://a:1883,mqtt://b:99"
    assert [place.port for place in api_address("ward", "").places] == [1, 2]
    with pytest.raises(InputError, match="a stream is read and written at one node"):
        target("plain", "stream")
    monkeypatch.setenv("PENSTOCK_CONTEXT", "plain")
    found = node_login(node="", user=None, password_env=None, password_stdin=False, ca=None, client_id=None)
    assert found.shown == "mqtt://a:1883,mqtt://b:1883"


def test_option_then_variable_then_context_in_use_then_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target("", "mqtt").url == "mqtt://127.0.0.1:1883"
    keep("home", home=Context("nas"), work=Context("office.example"))
    assert target("", "mqtt").url == "mqtt://nas:1883"
    monkeypatch.setenv("PENSTOCK_CONTEXT", "work")
    assert target("", "http").url == "http://office.example:8080"
    assert target("home", "http").url == "http://nas:8080"
    assert target("other", "http").url == "http://other:8080", "not a context: a host"
    monkeypatch.setenv("PENSTOCK_CONTEXT", "hoem")
    with pytest.raises(
        InputError, match=r"^PENSTOCK_CONTEXT: there is no context 'hoem'; there are: home, work;"
    ):
        target("", "mqtt")


def test_the_port_of_a_context_is_that_of_mqtt() -> None:
    keep(home=Context("nas:99"), tls=Context("nas", ca="/ca.pem"), far=Context("nas", http="https://x/p"))
    assert target("home", "mqtt").url == "mqtt://nas:99"
    assert target("home", "http").url == "http://nas:8080"
    assert target("tls", "mqtt").url == "mqtts://nas:8883"
    assert target("tls", "stream").url == "streams://nas:1884"
    assert target("far", "http").url == "https://x/p"


def login(node: str = "", **more: str) -> NodeLogin:
    known = {"user": None, "password_env": None, "ca": None, "client_id": None} | more
    return node_login(node=node, password_stdin=False, **known)  # type: ignore[arg-type]


def test_credentials_of_a_context_go_to_its_node_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word \r\nsecond line\n")
    monkeypatch.setenv("TOKEN", "tok")
    keep("home", home=Context("nas", user="ann", password_file=str(secret), token_env="TOKEN"))  # noqa: S106
    assert (login().user, login().password) == ("ann", "pass word ")
    assert api_address("", "").token == "tok"  # noqa: S105
    assert api_address("", "given").token == "given"  # noqa: S105
    for elsewhere in ("127.0.0.1", "mqtt://nas:1883", "nas"):
        assert (login(elsewhere).user, login(elsewhere).password) == (None, None)
        assert api_address(elsewhere, "").token == ""
    assert (
        node_login(
            node="", host="other", user=None, password_env=None, password_stdin=False, ca=None, client_id=None
        ).password
        is None
    )
    monkeypatch.setenv("BOBS", "hers")
    assert login(user="bob", password_env="BOBS").password == "hers"  # noqa: S105, S106
    assert login(user="bob").password is None, "the password of ann is not that of bob"


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (Context("nas", user="a", password_env="NO_SUCH"), "no environment variable 'NO_SUCH'"),  # noqa: S106
        (Context("nas", user="a", password_file="/no/such"), "/no/such: the password cannot be read"),  # noqa: S106
    ],
)
def test_a_password_that_is_not_there(context: Context, said: str) -> None:
    keep("home", home=context)
    with pytest.raises(InputError, match=said):
        login()
