"""The OpenAPI document: well formed, complete, and the one that is served."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from penstock.node.http import openapi
from penstock.node.http.access import ACCESS_ROUTES
from penstock.node.http.channels.routes import CHANNEL_ROUTES
from penstock.node.http.guard import OPEN
from penstock.node.http.lists import LIST_ROUTES
from penstock.node.http.notify import ROUTES as NOTIFY_ROUTES
from penstock.node.http.routes import API
from penstock.node.http.routes import ROUTES as NODE_ROUTES
from penstock.node.http.traffic import TRAFFIC_ROUTES
from tests.kit.http_node import running
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = openapi.document()
ROUTES = (*NODE_ROUTES, *TRAFFIC_ROUTES, *ACCESS_ROUTES, *CHANNEL_ROUTES, *LIST_ROUTES, *NOTIFY_ROUTES)


def references(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(found, list):
        for value in found:
            yield from references(value)


def test_every_reference_leads_somewhere() -> None:
    names = {reference.removeprefix("#/components/schemas/") for reference in references(DOCUMENT)}
    assert names <= DOCUMENT["components"]["schemas"].keys()
    assert names == DOCUMENT["components"]["schemas"].keys(), "schemas that nothing refers to"


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_every_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(DOCUMENT["components"]["schemas"][name])


def test_it_says_what_openapi_asks_for() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    ids = []
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            ids.append(operation["operationId"])
            assert operation["summary"]
            assert "200" in operation["responses"]
            named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
            assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    assert len(ids) == len(set(ids))


async def test_it_is_served_and_knows_everything_that_is() -> None:
    async with running() as node:
        status, served, _ = await node.ask("GET", f"{API}/openapi.json")
        assert status == 200
        assert served == json.loads(json.dumps(DOCUMENT))
        app = node.server._runner.app
        offered = {
            (route.method, route.resource.canonical)
            for route in app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
        known = {(route.method, route.path) for route in ROUTES}
        assert offered == known | {("GET", path) for path in OPEN} | {("GET", f"{API}/openapi.json")}


def test_the_reference_names_every_request_parameter_and_field() -> None:
    text = (ROOT / "docs/reference/http-api.md").read_text()
    for route in ROUTES:
        assert f"| `{route.method} {route.path}` |" in text
        for one in route.parameters:
            assert one.in_path or f"`{one.name}`" in text
        for name in route.body.__struct_fields__ if route.body else ():
            assert f"`{name}`" in text
