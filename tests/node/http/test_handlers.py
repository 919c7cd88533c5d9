"""The API on a real broker: what is shown is what is, what is asked wrongly is told so."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest

from penstock import limits
from penstock.mqtt.packets.connect import Disconnect
from penstock.mqtt.packets.publish import Publish
from tests.kit.http_node import VITALS, Running, running


async def test_a_slow_receiver_is_seen_with_its_queue_its_level_and_its_filters() -> None:
    async with running() as node:
        healthy = await node.client("healthy")
        await healthy.subscribe("ward/healthy")
        await node.stalled("phone", "ward/phone/#", policy=VITALS)
        slow = await node.get("/slow")
        assert [row["client_id"] for row in slow["subscriptions"]] == ["phone"]
        found = slow["subscriptions"][0]["subscription"]
        assert found["policy"] == "vitals"
        assert found["items"] > 0
        assert found["oldest_us"] > 0
        assert found["level"] >= 1
        assert sum(one["dropped"] for one in found["filters"]) > 0
        clients = await node.get("/clients")
        assert [row["client_id"] for row in clients["clients"]] == ["phone", "healthy"]
        assert clients["clients"][0]["dropped"] == sum(one["dropped"] for one in found["filters"])
        whole = await node.get("/clients/phone")
        assert whole["subscriptions"][0]["filter"] == "ward/phone/#"
        overview = await node.get("/status")
        assert overview["balanced"]
        assert overview["attached"] == 2
        assert overview["waiting"] == 1
        assert overview["account"]["accepted"] >= found["account"]["accepted"] > 0


async def test_lists_are_searched_and_paged() -> None:
    async with running() as node:
        for name in ("alpha", "Beta", "gamma"):
            await (await node.client(name)).subscribe(f"{name}/#")
        assert (await node.get("/clients?search=beta"))["clients"][0]["client_id"] == "Beta"
        assert (await node.get("/clients?search=zeta"))["clients"] == []
        assert (await node.get("/clients?state=detached"))["total"] == 0
        page = await node.get("/clients?offset=1&limit=1")
        assert (page["total"], [row["client_id"] for row in page["clients"]]) == (3, ["alpha"])
        mine = await node.get("/subscriptions?client=gamma")
        assert [row["subscription"]["filter"] for row in mine["subscriptions"]] == ["gamma/#"]
        assert (await node.get("/subscriptions?filter=alpha/%23"))["total"] == 1


@pytest.mark.parametrize("client_id", ["a/b", "<b>&\"'</b>", "ü 漢 ?#%2F", "x" * 500])
async def test_strange_client_ids_are_found_under_their_own_name(client_id: str) -> None:
    async with running() as node:
        await node.client(client_id)
        assert (await node.get(f"/clients/{quote(client_id, safe='')}"))["client_id"] == client_id


async def test_a_subscription_of_which_nothing_is_remembered_has_an_empty_past() -> None:
    async with running() as node:
        found = await node.get("/history?client=x&filter=y")
        assert set(map(len, found["series"].values())) == {0}


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/clients/nobody", 404, "client_id"),
        ("/clients?state=asleep", 400, "state"),
        ("/clients?limit=1001", 400, "limit"),
        ("/clients?limit=-1", 400, "limit"),
        ("/subscriptions?offset=two", 400, "offset"),
        ("/slow?limit=%C2%B2", 400, "limit"),
        ("/history?client=x", 400, "filter"),
        ("/history?filter=x", 400, "client"),
        ("/history?client=x&filter=y&since_us=99999999999999999999", 400, "since_us"),
        ("/policies/none", 404, "name"),
    ],
)
async def test_what_cannot_be_answered_says_why_and_where(path: str, status: int, where: str) -> None:
    async with running() as node:
        found, problem, _ = await node.ask("GET", f"/api/v1{path}")
        assert (found, problem["status"], problem["where"]) == (status, status, where)
        assert problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        ("/policy/check", {}, 422, "body"),
        ("/policy/check", {"policy": 3}, 422, "policy"),
        ("/policy/check", {"policy": "", "also": 1}, 422, "body"),
        ("/policy/check", [], 422, "body"),
        ("/policy/try", {"policy": "levels: [{drop: {detla: 1}}]"}, 422, "policy"),
        ("/policy/try", {"policy": VITALS, "filter": "a/#/b"}, 422, "filter"),
        ("/policy/try", {"policy": VITALS, "seconds": 0}, 422, "seconds"),
        ("/policy/try", {"policy": VITALS, "seconds": 1e9}, 422, "seconds"),
        ("/policy/try", {"policy": VITALS, "events": limits.HTTP_TRY_EVENTS + 1}, 422, "events"),
        ("/policy/apply", {"client_id": "nobody", "filter": "#", "policy": VITALS}, 404, "client_id"),
        ("/policy/apply", {"client_id": "known", "filter": "else", "policy": VITALS}, 404, "filter"),
        ("/policy/apply", {"client_id": "known", "filter": "known/#", "policy": "no: policy"}, 422, "policy"),
        ("/policy/apply", {"client_id": "known", "filter": "known/#", "policy": "vitalz"}, 422, "policy"),
        ("/disconnect", {"client_id": "nobody"}, 404, "client_id"),
        ("/disconnect", {"client_id": ""}, 422, "client_id"),
        ("/publish", {"topic": "a/+"}, 422, "topic"),
        ("/publish", {"topic": "$SYS/broker/version"}, 400, "topic"),
        ("/publish", {"topic": "a", "qos": 3}, 422, "qos"),
        ("/publish", {"topic": "a", "payload": 1}, 422, "payload"),
    ],
)
async def test_bad_requests_change_nothing_and_say_what_is_wrong(
    path: str, body: Any, status: int, where: str
) -> None:
    async with running() as node:
        await (await node.client("known")).subscribe("known/#")
        found, problem = await node.post(path, body)
        assert (found, problem["status"], problem.get("where", "")) == (status, status, where)
        assert (await node.get("/subscriptions?client=known"))["subscriptions"][0]["subscription"][
            "policy"
        ] == ""


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"policy": "\xed\xa0\x80"}'])
async def test_bodies_that_are_no_json(body: bytes) -> None:
    async with running() as node:
        status, problem, _ = await node.ask(
            "POST", "/api/v1/policy/check", data=body, headers={"Content-Type": "application/json"}
        )
        assert (status, problem["where"]) == (400, "body")


async def test_a_body_above_the_bound_is_refused() -> None:
    async with running() as node:
        status, problem = await node.post("/policy/check", {"policy": "x" * limits.HTTP_BODY_BYTES})
        assert (status, problem["title"]) == (413, "Request Entity Too Large")


async def test_a_wrong_path_or_method_is_a_problem_object() -> None:
    async with running() as node:
        async with node._session.get(f"{node.url}/api/v1/nothing") as answer:
            assert (answer.status, answer.content_type) == (404, "application/problem+json")
        async with node._session.put(f"{node.url}/api/v1/publish", json={}) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")
            assert "POST" in (await answer.json(content_type=None))["detail"]
        async with node._session.delete(f"{node.url}/api/v1/status") as answer:  # whatever its body is
            assert (answer.status, answer.headers["Allow"]) == (405, "GET")
        async with node._session.post(f"{node.url}/api/v1/nothing", data=b"x") as answer:
            assert answer.status == 404


async def test_policies_of_the_configuration_are_listed_with_what_they_do() -> None:
    async with running(policies={"vitals": VITALS, "few": "levels: [{keep: {latest: 3}}]"}) as node:
        listed = (await node.get("/policies"))["policies"]
        assert [(one["name"], one["policy"]["levels"]) for one in listed] == [("vitals", 3), ("few", 1)]
        one = await node.get("/policies/vitals")
        assert one["policy"]["text"] == VITALS
        assert one["policy"]["explanation"][0].startswith("Policy 'vitals' has 3 levels")


async def test_a_policy_is_checked_with_the_place_of_its_mistake() -> None:
    async with running() as node:
        _, good = await node.post("/policy/check", {"policy": VITALS})
        assert good["ok"]
        assert good["filters"] == 3
        _, bad = await node.post("/policy/check", {"policy": "levels:\n  - drop: {detla: 5}\n"})
        assert not bad["ok"]
        assert (bad["facts"]["line"], bad["facts"]["near"]) == (2, "delta")


async def test_a_policy_is_applied_to_a_live_subscription_and_removed_again() -> None:
    async with running(policies={"few": "levels: [{keep: {latest: 3}}]"}) as node:
        await node.stalled("phone", "ward/#")
        before = (await node.get("/slow"))["subscriptions"][0]["subscription"]
        assert before["policy"] == ""
        target = {"client_id": "phone", "filter": "ward/#"}
        status, row = await node.post("/policy/apply", {**target, "policy": VITALS})
        assert (status, row["subscription"]["policy"]) == (200, "vitals")
        assert row["subscription"]["account"] == before["account"]
        await node.flood("ward/x", 300)
        after = (await node.get("/slow"))["subscriptions"][0]["subscription"]
        assert {one["filter"] for one in after["filters"]} >= {"delta"}
        _, row = await node.post("/policy/apply", {**target, "policy": "few"})
        assert row["subscription"]["policy"] == "few"
        _, row = await node.post("/policy/apply", {**target, "policy": None})
        assert row["subscription"]["policy"] == ""
        assert (await node.get("/status"))["balanced"]


async def test_a_disconnected_client_is_told_why() -> None:
    async with running() as node:
        client = await node.client("phone", expiry_s=60)
        assert (await node.post("/disconnect", {"client_id": "phone"}))[0] == 200
        farewell = await client.hear()
        assert isinstance(farewell, Disconnect)
        assert farewell.reason == 0x98
        await client.close()
        assert (await node.get("/clients"))["clients"][0]["state"] == "detached"


async def test_a_message_published_here_reaches_a_subscriber() -> None:
    async with running() as node:
        client = await node.client("phone")
        await client.subscribe("ward/#")
        assert (await node.post("/publish", {"topic": "ward/1", "payload": "grün"}))[0] == 200
        message = await client.hear()
        assert isinstance(message, Publish)
        assert (message.topic, message.payload.decode()) == ("ward/1", "grün")


async def _trials(node: Running, count: int) -> list[tuple[int, Any]]:
    asked = {"policy": VITALS, "seconds": 0.3}
    return list(await asyncio.gather(*(node.post("/policy/try", asked) for _ in range(count))))


async def test_more_trials_at_once_than_the_bound_are_refused() -> None:
    async with running() as node:
        found = await _trials(node, limits.HTTP_TRIES + 2)
        assert sorted(status for status, _ in found) == [200] * limits.HTTP_TRIES + [429] * 2
        assert [status for status, _ in await _trials(node, 1)] == [200]


async def test_a_policy_is_tried_on_what_is_published_and_nobody_notices() -> None:
    async with running(events=1_000) as node:
        client = await node.client("phone")
        await client.subscribe("ward/#")
        before = (await node.get("/subscriptions?client=phone"))["subscriptions"][0]["subscription"]
        asked = {"policy": VITALS, "filter": "ward/#", "events": 200, "seconds": 30}
        trial = asyncio.create_task(node.post("/policy/try", asked))
        while not trial.done():
            node.broker.publish("elsewhere", b'{"pulse": 1}')
            await node.flood("ward/1", 50)
            await asyncio.sleep(0.01)
        status, found = trial.result()
        assert (status, found["events"], found["topics"]) == (200, 200, 1)
        for level in found["levels"]:
            assert level["kept"] + level["digested"] == 200
        kept = [level["kept"] for level in found["levels"]]
        assert kept == sorted(kept, reverse=True)
        assert 10 >= kept[-2] > kept[-1] == 0
        assert found["items_total"] == len(found["items"])
        assert sum("event" in item for item in found["items"]) == kept[-2]
        assert sum(one["dropped"] for one in found["filters"]) == 200 - kept[-2]
        after = (await node.get("/subscriptions?client=phone"))["subscriptions"][0]["subscription"]
        assert after["policy"] == before["policy"] == ""
        assert after["account"]["accepted"] == after["account"]["delivered"] + after["account"]["queued"]


async def test_a_trial_puts_urgent_events_first_and_drops_none_of_them() -> None:
    async with running() as node:
        policy = {"attribute": "pulse", "urgent": {"ge": 8}, "levels": [{"drop": {"lt": 5}}]}
        asked = {"policy": json.dumps(policy), "filter": "ward/#", "events": 20, "seconds": 30}
        trial = asyncio.create_task(node.post("/policy/try", asked))
        while not trial.done():
            for pulse in range(10):
                node.broker.publish("ward/1", b'{"pulse": %d}' % pulse)
            await asyncio.sleep(0.01)
        status, found = trial.result()
        assert (status, [level["kept"] for level in found["levels"]]) == (200, [10, 4])
        assert all(level["kept"] + level["digested"] == 20 for level in found["levels"])
        assert [one["seen"] for one in found["filters"]] == [16]
        assert [json.loads(item["event"]["payload"])["pulse"] for item in found["items"][:4]] == [8, 9, 8, 9]


async def test_a_trial_that_saw_nothing_says_so() -> None:
    async with running() as node:
        status, found = await node.post("/policy/try", {"policy": VITALS, "seconds": 0.05})
        assert (status, found["events"], found["items"]) == (200, 0, [])
