"""KAFKA_CONFIG may hold a password: it is a secret like any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cases import for_each

from modules.llm_platform.presentation.cli.commands.config import list_setting_values
from modules.llm_platform.presentation.kafka.worker.clients import make_client_settings
from shared.config import Settings, SettingsError

PASSWORD = "open-sesame-1"


@for_each(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)
def test_kafka_secret_is_redacted_and_reaches_the_client(name: str) -> None:
    """The secret is redacted in messages, is in no repr or list of settings, and reaches the client."""
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "team", name: PASSWORD}
    settings = Settings.load(KAFKA_CONFIG=given)
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in repr(settings.KAFKA_CONFIG)
    assert PASSWORD not in str(list(list_setting_values(settings, {})))
    assert make_client_settings(settings) == given


def test_kafka_config_keeps_the_types_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON, with numbers and truths as they are."""
    monkeypatch.setenv(
        "KAFKA_CONFIG", '{"linger.ms": 5, "enable.ssl.certificate.verification": true, "client.rack": "a"}'
    )
    settings_used = make_client_settings(Settings.load())
    assert settings_used == {"linger.ms": 5, "enable.ssl.certificate.verification": True, "client.rack": "a"}


@pytest.mark.parametrize(
    "value", ["sasl.password=open-sesame-1", '["open-sesame-1"]', '{"sasl.password": {"a": "open-sesame-1"}}']
)
def test_unreadable_kafka_config_is_not_quoted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the name of the variable and an example, but not the value."""
    monkeypatch.setenv("KAFKA_CONFIG", value)
    with pytest.raises(SettingsError, match="KAFKA_CONFIG") as caught:
        Settings.load()
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("[1]", "KAFKA_CONFIG must be a JSON object"),
        ('{"linger.ms": null}', r"KAFKA_CONFIG \(linger\.ms\) must be text, a number, true or false"),
        ('{"sasl.password": {"a": 1}}', r"KAFKA_CONFIG \(sasl\.password\) must be text, a number, true or false"),
    ],
)
def test_invalid_kafka_config_has_one_message(value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each kind that the value is not."""
    monkeypatch.setenv("KAFKA_CONFIG", value)
    with pytest.raises(SettingsError, match=message) as caught:
        Settings.load()
    assert "\n" not in str(caught.value)


def test_config_of_a_file_reaches_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a JSON file is accepted. Unsafe options and secrets are handled like those of the variable."""
    file = tmp_path / "kafka.json"
    options = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": PASSWORD,
    }
    file.write_text(json.dumps({**options, "topic.rag_failed": "acme.failed", "auto.register.schemas": False}), "utf-8")
    monkeypatch.setenv("KAFKA_CONFIG", str(file))
    settings = Settings.load()
    assert make_client_settings(settings) == options
    assert settings.kafka_topics() == {"rag_failed": "acme.failed"}
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings) + str(list(list_setting_values(settings, {})))


@for_each(
    ("options", "message"),
    [
        (
            {"sasl.password": PASSWORD},
            r"sasl\.password has no effect with PLAINTEXT: set security\.protocol to SASL_SSL",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "/ca.pem"},
            r"ssl\.ca\.location has no effect with SASL_PLAINTEXT: set security\.protocol to SSL or SASL_SSL",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.username": "team"}, r"sasl\.username needs sasl\.mechanism"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, object], message: str) -> None:
    """A password that the connection would not use is refused, because nobody would notice the mistake."""
    with pytest.raises(SettingsError, match=message) as caught:
        make_client_settings(Settings.load(KAFKA_CONFIG=options))
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "FileNotFoundError"), (b"\xff", "UnicodeDecodeError"), (b"\n", "JSON"), (b"[1]", "a JSON object")],
)
def test_unusable_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    """With the variable's name and the reason."""
    file = tmp_path / "kafka.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=rf"KAFKA_CONFIG must be .*{message}"):
        Settings.load(KAFKA_CONFIG=str(file))
