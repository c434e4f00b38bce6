"""Tests compose.yaml, the SearXNG file that it includes, and the mounted files.

The tests do not start containers, because that needs a container engine. They check that the files are valid and contain
settings that the programs read.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from modules.llm_platform.infrastructure.parsing.parser_pool import POOL_BYTES
from modules.llm_platform.presentation.kafka.contract.requests import FAILED_TOPIC, REQUEST_TOPICS, RESULT_TOPICS
from shared.config import Settings, variable_names

ROOT = Path(__file__).resolve().parents[2]
FILES = ("compose.yaml", "deploy/searxng/compose.yaml")
PLATFORM = ("api", "worker", "migrate")  # services that run our image
ONE_SHOT = ("migrate", "topics")
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)")
TAG = re.compile(r"docker\.io/[a-z]+/[a-z-]+:v?\d+\.\d+[\w.-]*")
MB = 1 << 20  # `m` in compose files
PROGRAM_BYTES = 512 * MB  # a server or a worker under load, without its parsers
DRAIN_S = Settings.model_fields["DRAIN_TIMEOUT_S"].default


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture
def service() -> dict[str, Any]:
    return read("deploy/searxng/compose.yaml")["services"]["searxng"]


@pytest.fixture
def settings() -> dict[str, Any]:
    return read("deploy/searxng/settings.yml")


def test_the_image_is_pinned(service: dict[str, Any]) -> None:
    """The image has a version, because a moving tag would run another program each time."""
    assert re.fullmatch(r"docker\.io/searxng/searxng:\d{4}\.\d+\.\d+-[0-9a-f]{9}", service["image"])


def test_only_this_machine_can_reach_it(service: dict[str, Any]) -> None:
    """The port is bound to loopback, because an open SearXNG without a limiter is an open proxy."""
    assert service["ports"] == ["127.0.0.1:8080:8080"]


def test_no_secret_stands_in_the_files(service: dict[str, Any], settings: dict[str, Any]) -> None:
    """The secret key comes from the environment, and compose refuses to start without it."""
    assert service["environment"]["SEARXNG_SECRET"].startswith("${SEARXNG_SECRET:?")
    assert "secret_key" not in settings["server"]


def test_the_settings_reach_searxng(service: dict[str, Any]) -> None:
    """The file exists, and is mounted read-only where SearXNG reads its settings."""
    source, target, mode = service["volumes"][0].split(":")
    assert (ROOT / "deploy" / "searxng" / source).is_file()
    assert (target, mode) == ("/etc/searxng/settings.yml", "ro")


def test_json_is_on_and_the_limiter_off(settings: dict[str, Any]) -> None:
    """Without json in `search.formats` every request gets a 403. The limiter would allow four requests an hour."""
    assert settings["use_default_settings"] is True
    assert {"html", "json"} <= set(settings["search"]["formats"])
    assert settings["server"]["limiter"] is False


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return read("compose.yaml")


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return compose["services"] | read("deploy/searxng/compose.yaml")["services"]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.mark.parametrize("file", FILES)
def test_the_files_follow_the_schema_of_compose(file: str) -> None:
    """The Compose specification knows every key."""
    command = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_of_our_services_exist(services: dict[str, Any]) -> None:
    """Every environment variable of the server, the worker and the migration is an existing setting."""
    known = {name for field in Settings.model_fields for name in variable_names(field)}
    assert {name for service in PLATFORM for name in services[service]["environment"]} <= known


def test_images_are_pinned(services: dict[str, Any]) -> None:
    """Each third-party image has a version tag."""
    images = {name: service["image"] for name, service in services.items() if name not in PLATFORM}
    assert [name for name, image in images.items() if not TAG.fullmatch(image)] == []


def test_only_the_proxy_is_reached_from_other_machines(services: dict[str, Any]) -> None:
    """Ports are bound to loopback. Only the proxy's address is configurable."""
    ports = {name: port for name, service in services.items() for port in service.get("ports", ())}
    assert ports.pop("proxy") == "${PROXY_ADDRESS:-127.0.0.1}:8000:8080"
    assert [port for port in ports.values() if not port.startswith("127.0.0.1:")] == []


def test_every_service_is_bounded_and_checked(services: dict[str, Any]) -> None:
    """Each service has limits for memory and CPU. It also has a health check unless it ends by itself or its image has one."""
    for name, service in services.items():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}, name
        assert name in (*ONE_SHOT, "searxng") or "test" in service["healthcheck"], name


def test_mounted_files_exist(services: dict[str, Any], compose: dict[str, Any]) -> None:
    """Each mounted path exists, because a missing path would become an empty folder. Each mounted name is a declared volume."""
    sources = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    paths = {source for source in sources if source.startswith("./")} - {"./settings.yml"}
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert {source for source in sources if not source.startswith("./")} == set(compose["volumes"])


def test_secrets_have_no_default() -> None:
    """Compose refuses to start without the secrets, and no file contains one."""
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in FILES]
    asked = {name for text in texts for name in re.findall(r"\$\{(\w+):\?", text)}
    secrets = {"SEARXNG_SECRET", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "QDRANT_API_KEY", "LLM_PLATFORM_API_KEYS"}
    assert asked == secrets
    named = {name for text in texts for name in VARIABLE.findall(text)}
    assert named - secrets == {"LLM_PLATFORM_VERSION", "PROXY_ADDRESS", "GRAFANA_PASSWORD"}


def test_our_containers_have_no_rights(services: dict[str, Any]) -> None:
    """Our containers have a read-only root, no capabilities, and a health check on the port of the program."""
    for name in PLATFORM:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    assert services["api"]["healthcheck"]["test"] == ["CMD", "healthcheck", "LLM_PLATFORM_PORT"]
    assert services["worker"]["healthcheck"]["test"] == ["CMD", "healthcheck", "WORKER_HTTP_PORT"]


def test_a_stop_is_long_enough_to_drain(services: dict[str, Any]) -> None:
    """The grace period of a server is its drain time plus five seconds. A worker gets twice the drain time plus five seconds."""
    drain = seconds(services["api"]["environment"]["DRAIN_TIMEOUT_S"])
    assert drain == DRAIN_S
    assert seconds(services["api"]["stop_grace_period"]) >= drain + 5
    assert seconds(services["worker"]["stop_grace_period"]) >= 2 * drain + 5


def test_the_tables_are_made_before_what_uses_them(services: dict[str, Any]) -> None:
    """Servers and workers wait for the migration. Workers also wait for the topics, and all topics are created."""
    for name in ("api", "worker"):
        assert services[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert services["worker"]["depends_on"]["topics"] == {"condition": "service_completed_successfully"}
    made = services["topics"]["command"][-1].split(";")[0].split()[3:]
    assert sorted(made) == sorted([*REQUEST_TOPICS.values(), *RESULT_TOPICS.values(), FAILED_TOPIC])


def test_the_proxy_is_the_one_that_is_trusted(compose: dict[str, Any]) -> None:
    """The proxy has one fixed address, and nginx forwards to the port of the two servers."""
    (address,) = [network["ipv4_address"] for network in compose["services"]["proxy"]["networks"].values()]
    assert compose["services"]["api"]["environment"]["TRUSTED_PROXIES"] == address
    assert "front" in compose["services"]["api"]["networks"]
    assert compose["services"]["api"]["deploy"]["replicas"] == 2
    port = Settings.model_fields["LLM_PLATFORM_PORT"].default
    nginx = (ROOT / "deploy" / "nginx" / "llm-platform.conf").read_text(encoding="utf-8")
    assert f"server api:{port} resolve" in nginx


@pytest.mark.parametrize("path", ["deploy/nginx/llm-platform.conf", "docs/howto/serve-safely.md"])
def test_each_proxy_names_the_scheme(path: str) -> None:
    """If the proxy terminates TLS, only this header tells the server that its address begins with https (`/opensearch.xml`)."""
    assert "proxy_set_header X-Forwarded-Proto $" in (ROOT / path).read_text(encoding="utf-8")


def test_prometheus_finds_servers_and_workers() -> None:
    """Names and ports match compose.yaml, and job names have the prefix that the alerts expect."""
    jobs = read("deploy/prometheus/prometheus.yml")["scrape_configs"]
    targets = {(config["names"][0], config["port"]) for job in jobs for config in job["dns_sd_configs"]}
    ports = [Settings.model_fields[name].default for name in ("LLM_PLATFORM_PORT", "WORKER_HTTP_PORT")]
    assert targets == {("api", ports[0]), ("worker", ports[1])}
    assert all(job["job_name"].startswith("llm-platform") for job in jobs)


@pytest.mark.parametrize("name", ["api", "worker"])
def test_the_memory_limit_has_room_for_the_parsers(compose: dict[str, Any], name: str) -> None:
    """The limit covers the program, all parsers at their memory limit, and the tmpfs files, which count as memory."""
    service = compose["services"][name]
    written = sum(int(found[1]) * MB for mount in service["tmpfs"] if (found := re.search(r"size=(\d+)m", mount)))
    limit = int(service["deploy"]["resources"]["limits"]["memory"].removesuffix("m")) * MB
    assert limit >= PROGRAM_BYTES + POOL_BYTES + written
