"""Settings: precedence, parsing, errors and secrets."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError
from tests.support.cases import for_each

from shared import setting_names
from shared.config import (
    SECTIONS,
    Settings,
    SettingsError,
    environment_variables,
    example_line,
    setting_origin,
    unknown_variables,
    variable_names,
)
from shared.setting_names import SHARED_WORDS, format_value
from shared.setting_types import LLMProviderSettings

KEY = "sk-very-secret-0123456789"
ALL = list(Settings.model_fields)


@pytest.fixture
def dot_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".env"


class TestPrecedence:
    def test_order_of_precedence(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Argument, environment, .env, default."""
        assert Settings().LLM_MODEL is None
        dot_env.write_text("LLM_MODEL=from-file\n")
        assert Settings().LLM_MODEL == "from-file"
        monkeypatch.setenv("LLM_MODEL", "from-environment")
        assert Settings().LLM_MODEL == "from-environment"
        assert Settings(LLM_MODEL="from-argument").LLM_MODEL == "from-argument"

    def test_first_name_takes_precedence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both names are read; if both are set, the first one is used."""
        monkeypatch.setenv("RESEARCH_BRIDGE_SEARXNG_URL", "http://second.example")
        assert Settings().SEARXNG_URL == ("http://second.example",)
        monkeypatch.setenv("SEARXNG_URL", "http://first.example")
        assert Settings().SEARXNG_URL == ("http://first.example",)

    def test_environment_takes_precedence_over_the_name(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The alias in the environment takes precedence over the name in .env."""
        dot_env.write_text("LOG_LEVEL=ERROR\n")
        monkeypatch.setenv("RESEARCH_BRIDGE_LOG_LEVEL", "DEBUG")
        assert Settings().LOG_LEVEL == "DEBUG"

    def test_empty_variable_is_not_set(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An empty variable is ignored in favour of .env or of the alias."""
        dot_env.write_text("SEARXNG_TIMEOUT_S=3\n")
        monkeypatch.setenv("SEARXNG_TIMEOUT_S", "")
        monkeypatch.setenv("KIMI_API_KEY", "")
        monkeypatch.setenv("RESEARCH_BRIDGE_KIMI_API_KEY", KEY)
        settings = Settings()
        assert settings.SEARXNG_TIMEOUT_S == 3
        assert SecretStr(KEY) == settings.KIMI_API_KEY

    @pytest.mark.parametrize("field", [name for name in ALL if len(variable_names(name)) > 1])
    def test_origin_names_the_variable_in_use(self, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The origin is the name that was set and its source."""
        first, second = variable_names(field)
        assert setting_origin(field, {}) == (first, "default")
        monkeypatch.setenv(second, "x")
        assert setting_origin(field, {}) == (second, "environment")
        assert setting_origin(field, {first: "y"}) == (first, "argument")

    def test_dotenv_syntax(self, dot_env: Path) -> None:
        """A byte order mark, export, quotes and comments are accepted."""
        dot_env.write_bytes(b"\xef\xbb\xbfLLM_MODEL=a # why\r\nexport KIMI_MODEL='b c'\r\n\r\n# nothing\r\n")
        settings = Settings()
        assert (settings.LLM_MODEL, settings.KIMI_MODEL) == ("a", "b c")
        assert set(environment_variables()[".env"]) == {"LLM_MODEL", "KIMI_MODEL"}

    def test_binary_dotenv_is_an_error(self, dot_env: Path) -> None:
        """A .env that is not UTF-8 is a SettingsError."""
        dot_env.write_bytes(b"LLM_MODEL=\xff\xfe")
        with pytest.raises(SettingsError, match=r"^\.env cannot be read .* UTF-8$"):
            Settings.load()

    def test_unreadable_line_of_dotenv_is_named(self, dot_env: Path, caplog: pytest.LogCaptureFixture) -> None:
        """A line that is no assignment causes one warning, with the file and the line and without its text."""
        dot_env.write_text(f'LLM_MODEL=a\n\n  not an assignment\nKIMI_API_KEY="{KEY}\n')
        assert Settings.load().LLM_MODEL == "a"
        environment_variables()
        assert [record.getMessage().partition(" is ")[0] for record in caplog.records] == [".env line 3", ".env line 4"]
        assert KEY not in caplog.text


class TestParsing:
    def test_defaults_have_no_secrets(self) -> None:
        """Without variables all settings have a default, and none has a key."""
        settings = Settings()
        assert settings.secrets() == ()
        assert settings.SEARCH_PROVIDERS == ()
        assert settings.BOCHA_API_KEY.get_secret_value() == ""

    @pytest.mark.parametrize(
        ("name", "text", "value"),
        [
            ("LOG_LEVEL", "debug", "DEBUG"),
            ("LLM_PLATFORM_OFFLINE", "yes", True),
            ("LLM_PLATFORM_OFFLINE", "0", False),
            ("SEARCH_PROVIDERS", "auto", ()),
            ("SEARCH_PROVIDERS", " SearXNG , ddgs,searxng ", ("searxng", "ddgs")),
            (
                "SEARXNG_URL",
                "http://a.example/, https://b.example:8443/x/",
                ("http://a.example", "https://b.example:8443/x"),
            ),
            ("SEARXNG_ENGINES_NEWS", "google news,, bing news", ("google news", "bing news")),
            ("BOCHA_BASE_URL", "https://api.bocha.cn/", "https://api.bocha.cn"),
            ("LLM_MODEL", "  spaced  ", "spaced"),
            ("CACHE_TTL_S", "0", 0.0),
            ("UPSTREAM_PROXY", "http://me:word@proxy.example:3128", "http://me:word@proxy.example:3128"),
            ("REDIS_URL", "rediss://me:w%40rd@cache.example:6380/2", "rediss://me:w%40rd@cache.example:6380/2"),
            ("RESEARCH_BRIDGE_REDIS_URL", "unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
            ("LLM_BASE_URL", "http://[::1]:8000/v1", "http://[::1]:8000/v1"),
            ("READERS", " Direct, jina,direct", ("direct", "jina")),
            (
                "READER_ALLOWED_HOSTS",
                "Wiki:8080, 10.1.2.3/16,[::1]:80,::1",
                ("wiki:8080", "10.1.0.0/16", "[::1]:80", "::1"),
            ),
            ("BUDGET_USD_PER_DAY", " 1, alice = 3 ,a=b=0.5,*=2", {"": 1.0, "alice": 3.0, "a=b": 0.5, "*": 2.0}),
            ("BUDGET_USD_PER_DAY", '{"": 2}', {"": 2.0}),
            ("LLM_PROVIDERS", '[{"name": "a", "model": "m"}]', (LLMProviderSettings(name="a", model="m"),)),
        ],
    )
    def test_parsed_values(self, name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spaces, case, trailing slashes and duplicates are normalised if the meaning is clear."""
        monkeypatch.setenv(name, text)
        assert getattr(Settings(), name.removeprefix("RESEARCH_BRIDGE_")) == value

    def test_tilde_is_expanded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tilde is the home folder."""
        monkeypatch.setenv("DOCUMENTS_DIR", "~/papers")
        assert Path.home() / "papers" == Settings().DOCUMENTS_DIR

    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("SEARXNG_URL", "localhost:8080", "must begin with http:// or https://"),
            ("LLM_BASE_URL", "http://me:word@a.example", "must not contain a user name or password"),
            ("SEARXNG_URL", "http://a.example/search?format=json", "must be a URL with a host"),
            ("SEARXNG_URL", "http://", "must be a URL with a host"),
            ("SEARXNG_URL", "http://a b", "must be a URL with a host"),
            ("LLM_BASE_URL", "http://127.0.0.1\\@1.1.1.1", "must be a URL with a host"),
            ("LLM_BASE_URL", "http://a.example:99999", "must have a port below 65536"),
            ("UPSTREAM_PROXY", "http://me:w@o/rd@proxy.example:3128", "percent-encoded"),
            ("UPSTREAM_PROXY", "http://me:w/rd@proxy.example:3128", "percent-encoded"),
            ("UPSTREAM_PROXY", "http://me:w#rd@proxy.example:3128", "percent-encoded"),
            ("SEARXNG_URL", "http://me:w@o/rd@a.example", "percent-encoded"),
            ("REDIS_URL", "localhost:6379", "must begin with redis://"),
            ("REDIS_URL", "redis://:w/rd@cache.example", "percent-encoded"),
            ("REDIS_URL", "redis://cache.example:99999", "percent-encoded"),
            ("REDIS_URL", "redis://cache.example?password=word", "must have no options other than db"),
            ("REDIS_URL", "redis://cache.example?db=first", "must have a number as db"),
            ("LLM_PLATFORM_PORT", "http", "must be a valid integer."),
            ("LLM_PLATFORM_PORT", "70000", "must be less than or equal to 65535"),
            ("LLM_PLATFORM_OFFLINE", "perhaps", "must be true or false"),
            ("LOG_LEVEL", "loud", "must be 'DEBUG', 'INFO'"),
            ("LLM_TIMEOUT_S", "inf", "must be"),
            ("LLM_TIMEOUT_S", "nan", "must be"),
            ("LLM_TIMEOUT_S", "0", "must be greater than 0"),
            ("READERS", "google", "must be 'jina', 'direct' or 'direct-robots'"),
            ("READERS", ",", "must have at least 1 item"),
            ("JINA_RPS", "0", "must be greater than 0"),
            ("READER_ALLOWED_HOSTS", "http://wiki", "contains an invalid network"),
            ("READER_ALLOWED_HOSTS", "wiki:0", "must be a comma-separated list of host"),
            ("READER_ALLOWED_HOSTS", "a b", "must be a comma-separated list of host"),
            ("READER_ALLOWED_HOSTS", "10.0.0.0/33", "contains an invalid network"),
            ("LLM_PROVIDERS", "name: local", "must be JSON"),
            ("LLM_PROVIDERS", '[{"name": "a"}]', r"\(0\.model\) is missing"),
            ("LLM_PROVIDERS", '[{"name": "a", "model": "m", "url": "x"}]', r"\(0\.url\) is not known"),
            ("BUDGET_USD_PER_DAY", "alice=1,alice=9", "must have each label"),
            ("BUDGET_USD_PER_DAY", "1,alice=3,2", "must have each label"),
            ("BUDGET_USD_PER_DAY", "alice", "must be a valid number"),
            ("LLM_PLATFORM_API_KEYS", "a-long-random-word,alice:", "must have a key after the label of entry 2"),
            ("LLM_PLATFORM_API_KEYS", "alice: ,bob:another-random-word", "must have a key after the label of entry 1"),
            (
                "KAFKA_CONFIG",
                '{"topic.rag_failure": "a"}',
                r"\(topic\.rag_failure\) must be topic\. followed by one of",
            ),
            ("KAFKA_CONFIG", '{"topic.rag_failed": "a b"}', r"\(topic\.rag_failed\) must be 1 to 249 letters"),
            ("KAFKA_CONFIG", '{"topic.rag_failed": ".."}', r"\(topic\.rag_failed\) must be 1 to 249 letters"),
            (
                "KAFKA_CONFIG",
                '{"topic.rag_failed": "rag.search_result"}',
                "must give each of the five topics another name",
            ),
            ("KAFKA_CONFIG", '{"schema.registry.ulr": "http://a"}', r"must be schema\.registry\.url or"),
            ("KAFKA_CONFIG", '{"schema.registry.url": "a"}', r"\(schema\.registry\.url\) must begin with http"),
            ("KAFKA_CONFIG", '{"auto.register.schemas": "no"}', "must be true or false"),
            ("KAFKA_CONFIG", "/no/such/file.json", r"or the path of a file with one \(FileNotFoundError\)"),
            ("KIMI_API_KEY", "sk-kimi\u2019s", "copy the key again"),
        ],
    )
    def test_invalid_value_is_explained(self, name: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The message names the variable, the reason and an example."""
        monkeypatch.setenv(name, text)
        with pytest.raises(SettingsError, match=rf"^{name} .*{says}.*Example: {name}=\S") as caught:
            Settings.load()
        assert "Value error" not in str(caught.value)
        assert "unable to" not in str(caught.value)
        assert "/rd@" not in str(caught.value)

    def test_error_names_the_alias_that_was_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names the variable that was set."""
        monkeypatch.setenv("RESEARCH_BRIDGE_LOG_LEVEL", "loud")
        with pytest.raises(SettingsError, match=r"^RESEARCH_BRIDGE_LOG_LEVEL must be"):
            Settings.load()

    def test_each_invalid_variable_has_a_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All errors are reported at once."""
        monkeypatch.setenv("LLM_PLATFORM_PORT", "x")
        monkeypatch.setenv("LLM_TIMEOUT_S", "x")
        with pytest.raises(SettingsError) as caught:
            Settings.load()
        assert [line.split()[0] for line in str(caught.value).splitlines()] == ["LLM_PLATFORM_PORT", "LLM_TIMEOUT_S"]

    def test_same_error_is_reported_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two unknown names in one list are one line."""
        monkeypatch.setenv("READERS", "google,yahoo")
        with pytest.raises(SettingsError) as caught:
            Settings.load()
        assert len(str(caught.value).splitlines()) == 1

    def test_settings_are_immutable(self) -> None:
        """Assignment is an error."""
        with pytest.raises(ValidationError):
            Settings().LLM_MODEL = "other"  # type: ignore[misc]

    @given(st.text(max_size=40))
    def test_any_url_is_parsed_or_refused(self, text: str) -> None:
        """Any text is either a valid URL or a ValidationError."""
        try:
            settings = Settings(LLM_BASE_URL=text)
        except ValidationError:
            return
        assert (settings.LLM_BASE_URL or "").lower().startswith(("http://", "https://"))


class TestSecrets:
    def test_secrets_are_not_in_repr_or_output(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither repr nor str nor formatted values contain a secret."""
        monkeypatch.setenv("LLM_PROVIDERS", f'[{{"name": "a", "model": "m", "api_key": "{KEY}-listed"}}]')
        settings = Settings(
            BOCHA_API_KEY=f"{KEY}-bocha",
            SEARXNG_PASSWORD=f"{KEY}-basic",
            LLM_PLATFORM_API_KEYS=f"{KEY}-one,{KEY}-two",
            UPSTREAM_PROXY=f"http://me:{KEY}-proxy@proxy.example",
            SEARXNG_URL=f"http://me:{KEY}-%2F@a.example,http://b.example",
            REDIS_URL=f"redis://:{KEY}-redis@cache.example",
        )
        assert KEY not in repr(settings) + str(settings)
        names = ("listed", "bocha", "basic", "one", "two", "proxy", "%2F", "/", "redis")
        assert set(settings.secrets()) == {f"{KEY}-{name}" for name in names}
        assert KEY not in "".join(format_value(getattr(settings, name)) for name in ALL)

    @for_each(
        "url",
        [
            "postgresql://user:long%20password@host/db",
            "postgresql://user:long%20password@one:1,two:2/db?sslmode=require",
            "postgresql://host/db?user=u&password=long%20password&sslmode=require",
            "postgresql://host/db?sslpassword=long%20password",
        ],
    )
    def test_password_of_the_database_is_a_secret(self, url: str) -> None:
        """Wherever it is in the address, as it is written there and as it is meant."""
        assert {"long%20password", "long password"} <= set(Settings(_env_file=None, DATABASE_URL=url).secrets())

    @for_each("password", ["long@password", "long/pass@word", "long/password"])
    def test_password_of_the_database_with_special_characters_is_refused(self, password: str) -> None:
        """A part of it would be taken for the host, and be named as one that cannot be found."""
        with pytest.raises(ValidationError) as refused:
            Settings(_env_file=None, DATABASE_URL=f"postgresql://user:{password}@host/db")
        assert "percent-encoded" in str(refused.value)
        assert "long" not in str(refused.value)
        Settings(_env_file=None, DATABASE_URL=f"postgresql://user:{quote(password, safe='')}@host/db?options=a@b")

    def test_short_secrets_are_not_redacted(self) -> None:
        """A secret of seven characters could be an ordinary word."""
        assert Settings(BOCHA_API_KEY="seven77", KIMI_API_KEY="eight888").secrets() == ("eight888",)

    @for_each(
        "wrong",
        [
            {"LLM_PROVIDERS": f'[{{"api_key": "{KEY}"}}]'},
            {"LLM_PROVIDERS": f"{KEY} is no JSON"},
            {"KIMI_API_KEY": f"{KEY}\u200b!"},
            {"LLM_BASE_URL": f"http://me:{KEY}@a.example"},
        ],
    )
    def test_errors_do_not_contain_secrets(self, wrong: dict[str, str]) -> None:
        """A ValidationError does not contain the input in any form."""
        with pytest.raises(ValidationError) as caught:
            Settings(**wrong)
        error = caught.value
        assert KEY not in str(error) + repr(error) + error.json() + str(error.errors())

    def test_whitespace_around_a_key_is_stripped(self) -> None:
        """A key from a file often ends in a newline."""
        settings = Settings(KIMI_API_KEY=SecretStr(f"{KEY}\n"))
        assert SecretStr(KEY) == settings.KIMI_API_KEY

    def test_key_must_be_text(self) -> None:
        """Other types are refused."""
        with pytest.raises(ValidationError, match="must be a valid"):
            Settings(KIMI_API_KEY=17, LLM_PLATFORM_API_KEYS=17)


class TestUnknownVariables:
    def test_unknown_variable_gets_a_suggestion(self) -> None:
        """An unknown variable with the prefix of a setting causes a warning; other variables do not."""
        seen = ["SEARXNG_ULR", "LLM_TIMEOUT_S", "PATH", "searxng_url", "CACHE_OF_ANOTHER_PROGRAM"]
        assert unknown_variables(dict.fromkeys(seen)) == [
            "CACHE_OF_ANOTHER_PROGRAM is not a setting",
            "SEARXNG_ULR is not a setting; did you mean SEARXNG_URL?",
            "searxng_url is not a setting; did you mean SEARXNG_URL?",
        ]

    @for_each("field", Settings.model_fields)
    def test_every_setting_has_its_prefix_watched(self, field: str) -> None:
        """A typing error behind the first word is seen, unless other programs use that word."""
        if "_" in field and field.split("_")[0] not in SHARED_WORDS:
            assert unknown_variables({f"{field}X": None}) != []

    def test_variables_of_other_programs_cause_no_warning(self) -> None:
        """Words that they share with us begin many of them."""
        seen = ["AZURE_TENANT_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "LOG_FILE", "LOGNAME", "CORS_ALLOW",
                "UPSTREAM_URL", "ALLOWED_USERS"]  # fmt: skip
        assert unknown_variables(dict.fromkeys(seen)) == []
        assert unknown_variables({"AZURE_OPENAI_KEY": None}) != []

    @for_each(
        ("name", "meant"),
        [
            ("LLM_KEY", "; did you mean LLM_API_KEY?"),
            ("searxng_url", "; did you mean SEARXNG_URL?"),
            ("NO_SUCH_THING", ""),
        ],
    )
    def test_unknown_argument_is_an_error(self, name: str, meant: str) -> None:
        """The error names the argument and the most similar setting, not the value."""
        with pytest.raises(ValidationError) as refused:
            Settings(**{name: KEY})
        (detail,) = refused.value.errors()
        assert detail["loc"] == (name,)
        assert detail["msg"] == f"is not a setting{meant}"
        assert KEY not in f"{refused.value!s}{refused.value!r}{refused.value.errors()}"
        with pytest.raises(SettingsError, match=f"^{name} is not a setting"):
            Settings.load(**{name: KEY})

    def test_unknown_environment_variable_is_not_an_error(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An unknown variable may belong to another program. An alias is a known name."""
        dot_env.write_text("BOCHA_KEY=b\n")
        monkeypatch.setenv("LLM_KEY", "k")
        assert Settings().LLM_API_KEY is None
        assert Settings(RESEARCH_BRIDGE_LOG_LEVEL="DEBUG").LOG_LEVEL == "DEBUG"
        assert Settings(_env_file=None).LOG_LEVEL == "INFO"

    @pytest.mark.parametrize("name", setting_names.REPLACED)
    def test_former_setting_stops_the_start(self, name: str, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A former setting that would be ignored in silence is an error with its replacement, wherever it is set."""
        assert not setting_names.REPLACED.keys() & set(ALL)
        monkeypatch.setenv(name, KEY)
        with pytest.raises(SettingsError, match=rf"^{name} is not a setting any more: set \S") as caught:
            Settings.load()
        assert KEY not in str(caught.value)
        monkeypatch.setenv(name, "")
        assert Settings.load() == Settings()
        dot_env.write_text(f"{name}=1\n")
        with pytest.raises(SettingsError, match=rf"^{name} is not a setting any more"):
            Settings.load()

    @for_each("name", setting_names.FIXED)
    def test_former_setting_without_a_replacement_causes_a_warning(self, name: str) -> None:
        """With the value that is used now."""
        (warning,) = unknown_variables({name: None})
        assert warning.startswith(f"{name} is not a setting any more: the value is always ")

    def test_unknown_variables_of_environment_and_file(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both sources are checked for unknown variables."""
        dot_env.write_text("KIMI_KEY=x\n")
        monkeypatch.setenv("BOCHA_KEY", "x")
        assert [line.split()[0] for line in unknown_variables()] == ["BOCHA_KEY", "KIMI_KEY"]


RFC_KEY = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"  # RFC 8032, 7.1, test 1


@pytest.mark.parametrize(
    "key", [RFC_KEY, RFC_KEY.upper(), "ab" * 31, "xy" * 32], ids=["rfc", "upper", "short", "other"]
)
def test_a_key_that_anybody_knows_signs_nothing(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of RFC 8032 stands in many examples. The message does not repeat the value."""
    monkeypatch.setenv("SEAL_KEY", key)
    with pytest.raises(ValidationError, match="SEAL_KEY") as caught:
        Settings()
    assert key not in str(caught.value)


def test_the_example_of_a_seal_key_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error shows how to make a key. A key in an example would be copied, and `your-key` is refused like any other text."""
    monkeypatch.setenv("SEAL_KEY", "your-key")
    with pytest.raises(SettingsError, match="Example: SEAL_KEY= followed by what `openssl rand -hex 32` prints once"):
        Settings.load()


class TestDescription:
    @for_each("field", ALL)
    def test_every_setting_has_a_description(self, field: str) -> None:
        """The reference is generated from the descriptions."""
        assert Settings.model_fields[field].description

    @pytest.mark.parametrize("field", ALL)
    def test_every_example_is_valid(self, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The example in an error message is accepted."""
        name, _, value = example_line(field).partition("=")
        monkeypatch.setenv(name, value)
        assert Settings().model_fields_set == ({name} if value else set())

    @for_each("field", ALL)
    def test_every_setting_says_who_sets_it(self, field: str) -> None:
        """The reference has the condition of each setting: a value that no user would set is a constant."""
        extra = Settings.model_fields[field].json_schema_extra
        assert isinstance(extra, dict)
        assert str(extra["set_if"]).startswith("you "), (
            f"`set_if` of {field} must begin with 'you': it ends \"Set it if …\""
        )

    def test_sections_start_at_existing_fields(self) -> None:
        """Every section starts at an existing field, the first one at the first field."""
        assert set(SECTIONS) <= set(ALL)
        assert next(iter(SECTIONS)) == ALL[0]

    @for_each(
        ("value", "text"),
        [
            (None, ""),
            (True, "true"),
            (("a", "b"), "a,b"),
            ((), ""),
            ({}, ""),
            (SecretStr("x"), ""),
            (2.5, "2.5"),
            ((LLMProviderSettings(name="a", model="m"),), '[{"name": "a", "kind": "openai", "model": "m"}]'),
        ],
    )
    def test_formatted_values(self, value: object, text: str) -> None:
        """The formatted value is valid in a variable."""
        assert format_value(value) == text


def test_very_high_limits_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are practically infinite are accepted, also under the names of other systems."""
    for name in (
        "LIMIT_SEARCHXNG_RPM",
        "LIMIT_JINA_RPS",
        "LIMIT_AITUNNEL_RPS",
        "RATE_LIMIT_PER_MINUTE",
        "RATE_LIMIT_BURST",
    ):
        monkeypatch.setenv(name, "100000000")
    assert Settings.load().JINA_RPS == 100_000_000


class TestWithoutEnvironment:
    def test_variables_and_env_files_are_not_read(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """The arguments and the defaults alone decide; other settings read the environment as before, also at once."""
        (tmp_path / ".env").write_text("BOCHA_API_KEY=of-the-file\nBRAVE_TIMEOUT_S=none\n", encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("SEARXNG_URL", "http://searxng.example.org")
        monkeypatch.setenv("LLM_PLATFORM_PORT", "not a number")
        settings = Settings.without_environment(LOG_LEVEL="DEBUG")
        assert (settings.LOG_LEVEL, settings.SEARXNG_URL, settings.LLM_PLATFORM_PORT) == ("DEBUG", (), 8000)
        assert not settings.BOCHA_API_KEY.get_secret_value()
        with pytest.raises(ValidationError):
            Settings()

    def test_a_wrong_argument_is_an_error(self) -> None:
        """As without the environment: by the name of the setting, without its value."""
        with pytest.raises(ValidationError, match="LLM_PLATFORM_PORT"):
            Settings.without_environment(LLM_PLATFORM_PORT="not a number")
        with pytest.raises(ValidationError, match="SEARXNG_ADDRESS"):
            Settings.without_environment(SEARXNG_ADDRESS="x")


@pytest.mark.parametrize("address", ["a:b@x.org", "a b@x.org", '"a"@x.org', "a(b)@x.org", "a@[::1]", "a@x.org,b"])
def test_what_is_no_address_of_mail_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="WATCH_MAIL_FROM"):
        Settings(_env_file=None, WATCH_MAIL_FROM=address)
