"""KAFKA_CONFIG may hold a password: it is a secret like any other."""

from __future__ import annotations

import pytest

from modules.llm_platform.presentation.cli.config_command import effective
from modules.llm_platform.presentation.cli.worker_command import client_settings
from shared.config import Settings, SettingsError

PASSWORD = "open-sesame-1"


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config", "sasl.oauthbearer.assertion.private.key.passphrase",
    ],
)  # fmt: skip
def test_a_secret_is_never_shown(name: str) -> None:
    """It is looked for in what is said, is in no repr and no list of settings, and reaches the client."""
    settings = Settings.load(KAFKA_CONFIG={name: PASSWORD, "sasl.username": "team"})
    assert PASSWORD in settings.secrets()
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in repr(settings.KAFKA_CONFIG)
    assert PASSWORD not in str(list(effective(settings, {})))
    assert client_settings(settings) == {name: PASSWORD, "sasl.username": "team"}


def test_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON, with numbers and truths as they are."""
    monkeypatch.setenv(
        "KAFKA_CONFIG", '{"linger.ms": 5, "enable.ssl.certificate.verification": true, "client.rack": "a"}'
    )
    given = client_settings(Settings.load())
    assert given == {"linger.ms": 5, "enable.ssl.certificate.verification": True, "client.rack": "a"}


@pytest.mark.parametrize(
    "value", ["sasl.password=open-sesame-1", '["open-sesame-1"]', '{"sasl.password": {"a": "open-sesame-1"}}']
)
def test_what_cannot_be_read_is_not_quoted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's name and an example, not what was in it."""
    monkeypatch.setenv("KAFKA_CONFIG", value)
    with pytest.raises(SettingsError, match="KAFKA_CONFIG") as caught:
        Settings.load()
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("[1]", "KAFKA_CONFIG must be a JSON object"),
        ('{"linger.ms": null}', r"KAFKA_CONFIG \(linger\.ms\) must be text, a number, true or false"),
        ('{"sasl.password": {"a": 1}}', r"KAFKA_CONFIG \(sasl\.password\) must be text, a number, true or false"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(value: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each kind that the value is not."""
    monkeypatch.setenv("KAFKA_CONFIG", value)
    with pytest.raises(SettingsError, match=said) as caught:
        Settings.load()
    assert "\n" not in str(caught.value)
