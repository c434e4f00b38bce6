"""KAFKA_CONFIG may hold a password: it is a secret like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cases import for_each

from modules.llm_platform.presentation.cli.commands.config import setting_values
from modules.llm_platform.presentation.kafka.worker.clients import client_settings
from shared.config import Settings, SettingsError

PASSWORD = "open-sesame-1"


@for_each(
    "name",
    [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config", "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)  # fmt: skip
def test_kafka_secret_is_redacted_and_reaches_the_client(name: str) -> None:
    """It is looked for in what is said, is in no repr and no list of settings, and reaches the client."""
    settings = Settings.load(KAFKA_CONFIG={name: PASSWORD, "sasl.username": "team"})
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in repr(settings.KAFKA_CONFIG)
    assert PASSWORD not in str(list(setting_values(settings, {})))
    assert client_settings(settings) == {name: PASSWORD, "sasl.username": "team"}


def test_kafka_config_keeps_the_types_of_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON, with numbers and truths as they are."""
    monkeypatch.setenv(
        "KAFKA_CONFIG", '{"linger.ms": 5, "enable.ssl.certificate.verification": true, "client.rack": "a"}'
    )
    settings_used = client_settings(Settings.load())
    assert settings_used == {"linger.ms": 5, "enable.ssl.certificate.verification": True, "client.rack": "a"}


@pytest.mark.parametrize(
    "value", ["sasl.password=open-sesame-1", '["open-sesame-1"]', '{"sasl.password": {"a": "open-sesame-1"}}']
)
def test_unreadable_kafka_config_is_not_quoted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's name and an example, not what was in it."""
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


def test_security_settings_reach_the_client(tmp_path: Path) -> None:
    """Under librdkafka's names, beside KAFKA_CONFIG; the passwords of files are redacted too."""
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n", "utf-8")
    settings = Settings.load(
        KAFKA_SECURITY_PROTOCOL="sasl_ssl", KAFKA_SSL_CA_FILE="/tls/ca.pem", KAFKA_SASL_MECHANISM="scram-sha-512",
        KAFKA_SASL_USERNAME="team", KAFKA_SASL_PASSWORD_FILE=str(file), KAFKA_CONFIG={"linger.ms": 5},
    )  # fmt: skip
    assert client_settings(settings) == {
        "linger.ms": 5, "security.protocol": "SASL_SSL", "ssl.ca.location": "/tls/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "team", "sasl.password": PASSWORD,
    }  # fmt: skip
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings) + str(list(setting_values(settings, {})))


@for_each(
    ("values", "message"),
    [
        ({"KAFKA_SASL_PASSWORD": PASSWORD}, "KAFKA_SASL_PASSWORD has no effect with the protocol PLAINTEXT: set .* SASL_SSL"),
        (
            {"KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "KAFKA_SSL_CA_FILE": "/ca.pem"},
            "KAFKA_SSL_CA_FILE has no effect with the protocol SASL_PLAINTEXT",
        ),
        (
            {"KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_CONFIG": {"security.protocol": "SSL"}},
            "KAFKA_SECURITY_PROTOCOL and KAFKA_CONFIG both set security.protocol",
        ),
        (
            {"KAFKA_SECURITY_PROTOCOL": "SASL_SSL", "KAFKA_SASL_USERNAME": "team"},
            "KAFKA_SASL_USERNAME needs KAFKA_SASL_MECHANISM",
        ),
    ],
)
def test_contradicting_security_settings_are_refused(values: dict[str, object], message: str) -> None:
    """A password that the connection would not use is a mistake that nobody would notice."""
    with pytest.raises(SettingsError, match=message) as caught:
        client_settings(Settings.load(**values))
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"), [(None, "FileNotFoundError"), (b"\n", "is empty"), (b"\xff", "UnicodeDecodeError")]
)
def test_unusable_password_file_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    """With the variable's name and the reason."""
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError, match=rf"KAFKA_SASL_PASSWORD_FILE must be .*{message}"):
        Settings.load(KAFKA_SASL_PASSWORD_FILE=str(file))
