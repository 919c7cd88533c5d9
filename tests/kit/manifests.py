"""The fields of Kubernetes and Compose that deploy/ uses, with their types: a misspelt one is an error.

The whole schemas are large and change with each version; `uvx kubernetes-validate --strict` has those of
Kubernetes. Whoever uses a further field in deploy/ looks it up there, and names it here.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """An object without other fields."""


class Metadata(Strict):
    name: str | None = None
    labels: dict[str, str] = {}


class HttpGet(Strict):
    path: str
    port: str | int


class Probe(Strict):
    http_get: HttpGet
    period_seconds: int = 10
    timeout_seconds: int = 1
    failure_threshold: int = 3


class ContainerPort(Strict):
    name: str
    container_port: int


class Capabilities(Strict):
    drop: list[str]


class SeccompProfile(Strict):
    type: Literal["RuntimeDefault", "Unconfined", "Localhost"]


class ContainerSecurity(Strict):
    allow_privilege_escalation: bool
    read_only_root_filesystem: bool
    capabilities: Capabilities


class PodSecurity(Strict):
    run_as_non_root: bool
    run_as_user: int
    fs_group: int
    seccomp_profile: SeccompProfile


class Resources(Strict):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class VolumeMount(Strict):
    name: str
    mount_path: str
    read_only: bool = False


class Container(Strict):
    name: str
    image: str
    args: list[str]
    ports: list[ContainerPort]
    startup_probe: Probe
    liveness_probe: Probe
    readiness_probe: Probe
    resources: Resources
    security_context: ContainerSecurity
    volume_mounts: list[VolumeMount]


class NamedConfig(Strict):
    name: str


class NamedSecret(Strict):
    secret_name: str


class Volume(Strict):
    name: str
    config_map: NamedConfig | None = None
    secret: NamedSecret | None = None
    empty_dir: dict[str, str] | None = None


class PodSpec(Strict):
    containers: list[Container]
    volumes: list[Volume]
    security_context: PodSecurity
    automount_service_account_token: bool
    termination_grace_period_seconds: int


class Pod(Strict):
    metadata: Metadata
    spec: PodSpec


class Labels(Strict):
    match_labels: dict[str, str]


class ClaimSpec(Strict):
    access_modes: list[Literal["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]]
    resources: Resources


class Claim(Strict):
    metadata: Metadata
    spec: ClaimSpec


class StatefulSetSpec(Strict):
    service_name: str
    replicas: int
    selector: Labels
    template: Pod
    volume_claim_templates: list[Claim]


class ServicePort(Strict):
    name: str
    port: int
    target_port: str | int


class ServiceSpec(Strict):
    selector: dict[str, str]
    ports: list[ServicePort]


class StatefulSet(Strict, tag_field="kind"):
    api_version: Literal["apps/v1"]
    metadata: Metadata
    spec: StatefulSetSpec


class Service(Strict, tag_field="kind"):
    api_version: Literal["v1"]
    metadata: Metadata
    spec: ServiceSpec


class ConfigMap(Strict, tag_field="kind"):
    api_version: Literal["v1"]
    metadata: Metadata
    data: dict[str, str]


Kubernetes = ConfigMap | Service | StatefulSet
"""One document of a manifest."""


class Build(Strict, rename=None):
    context: str
    dockerfile: str
    args: dict[str, str] = {}


class ComposeService(Strict, rename=None):
    image: str
    build: Build | None = None
    command: list[str] = []
    ports: list[str] = []
    volumes: list[str] = []
    secrets: list[str] = []
    depends_on: list[str] = []
    profiles: list[str] = []
    restart: Literal["no", "always", "on-failure", "unless-stopped"] = "no"
    read_only: bool = False
    tmpfs: list[str] = []
    cap_drop: list[str] = []
    security_opt: list[str] = []


class SecretFile(Strict, rename=None):
    file: str


class Compose(Strict, rename=None):
    """A file of Docker Compose."""

    name: str
    services: dict[str, ComposeService]
    volumes: dict[str, None]
    secrets: dict[str, SecretFile]
