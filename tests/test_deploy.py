"""The files of deploy/ fit together, their metrics exist, and the steps of the image work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from penstock.cli.app import app
from penstock.errors import InputError
from penstock.node.config.read import load
from penstock.node.http.routes import HEALTHY, READY
from penstock.node.observe.metrics import PREFIX
from penstock.node.observe.tables import TABLES
from tests.kit.manifests import Compose, Kubernetes
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DEPLOY = ROOT / "deploy"


def metrics() -> dict[str, set[str]]:
    """Every metric of a node, and its labels."""
    found: dict[str, set[str]] = {}
    for table in TABLES:
        for one in table.figures:
            if one.metric:
                name = PREFIX + table.metrics + one.metric + ("_total" if one.kind == "counter" else "")
                found.setdefault(name, set()).update([*table.row_labels, *([one.label] if one.label else [])])
    return found


def of_alerts() -> list[str]:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    return [rule["expr"] for rule in rules]


def of_panels() -> list[str]:
    panels = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


@pytest.mark.parametrize("expression", [*of_alerts(), *of_panels()])
def test_alerts_and_panels_are_about_metrics_that_exist(expression: str) -> None:
    known = metrics()
    names = re.findall(r"penstock_\w+", expression)
    assert names or expression.startswith("up")
    assert set(names) <= known.keys()
    labels = re.findall(r"by \((\w+)\)|\{(\w+)=", expression)
    allowed = set().union(*(known[name] for name in names)) | {"job"}
    assert {one for pair in labels for one in pair if one} <= allowed


def test_labels_in_legends_and_words_of_alerts_exist() -> None:
    panels = json.loads((DEPLOY / "grafana" / "penstock.json").read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            names = re.findall(r"penstock_\w+", target["expr"])
            assert labels <= set().union(*(metrics()[name] for name in names))
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        names = re.findall(r"penstock_\w+", rule["expr"])
        assert labels <= set().union({"instance"}, *(metrics()[name] for name in names))


def kubernetes() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def test_every_configuration_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a" * 40)
    inside = kubernetes()[0]["data"]["penstock.yaml"]
    for text in ((DEPLOY / "penstock.yaml").read_text(), (DEPLOY / "node.yaml").read_text(), inside):
        path = tmp_path / "penstock.yaml"
        path.write_text(re.sub(r"token_file: [^}\s]+", "token_file: token", text))
        (warning, *more) = load(path).warnings
        assert "anonymous: always" in warning  # the port is published to loopback; both files say so
        assert all("unencrypted" in one for one in more)


def test_kubernetes_asks_what_a_node_answers() -> None:
    _, service, node = kubernetes()
    (container,) = node["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    asked = {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe")}
    assert asked == {HEALTHY}
    assert container["readinessProbe"]["httpGet"]["path"] == READY
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"] for volume in node["spec"]["template"]["spec"]["volumes"]}
    assert mounted == volumes | {claim["metadata"]["name"] for claim in node["spec"]["volumeClaimTemplates"]}


def test_manifests_have_no_field_that_is_unknown_or_of_another_type() -> None:
    documents = [msgspec.convert(one, Kubernetes) for one in kubernetes()]
    assert [type(one).__name__ for one in documents] == ["ConfigMap", "Service", "StatefulSet"]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    services = msgspec.convert(compose, Compose).services.values()
    kept = {volume.split(":")[0] for service in services for volume in service.volumes}
    assert {name for name in kept if not name.startswith("./")} == compose["volumes"].keys()
    assert {name for service in services for name in service.secrets} == compose["secrets"].keys()
    assert {name for service in services for name in service.depends_on} <= compose["services"].keys()


def test_a_misspelt_field_of_a_manifest_is_found() -> None:
    node = kubernetes()[-1]
    node["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(msgspec.ValidationError, match="livenessprobe"):
        msgspec.convert(node, Kubernetes)


def test_compose_names_files_that_are_there() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    files = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
        if volume.startswith("./")
    ]
    assert files
    assert all((DEPLOY / file).is_file() for file in files)
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_can_read_the_units(tmp_path: Path) -> None:
    units = []
    for name in ("penstock.service", "penstock-pipeline.service", "penstock-pipeline.timer"):
        unit = tmp_path / name
        unit.write_text((DEPLOY / name).read_text().replace("/opt/penstock/bin/penstock", sys.executable))
        units.append(str(unit))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "penstock" in line]
    assert complaints == []


def test_the_pipeline_of_systemd_and_compose_is_a_command_that_exists() -> None:
    unit = (DEPLOY / "penstock-pipeline.service").read_text()
    started = re.search(r"^ExecStart=\S+/penstock (.+)$", unit, re.MULTILINE)
    assert started is not None
    composed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["pipeline"]["command"]
    for arguments in (started[1].split(), composed):
        with pytest.raises(InputError, match="penstock/pipeline: no pipeline"):
            CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.e2e
def test_the_steps_of_the_image_make_a_node_and_a_digest_appears() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "try_image.py")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"… ward/\*: [\d,]+ events dropped at level \d", done.stdout)
