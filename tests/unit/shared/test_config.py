"""Settings: where they come from, what they refuse, and what they never say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from shared.config import (
    SECTIONS,
    LLMProviderSettings,
    Settings,
    SettingsError,
    environment,
    example,
    origin,
    unknown_variables,
    variable_names,
    written,
)

KEY = "sk-very-secret-0123456789"
ALL = list(Settings.model_fields)


@pytest.fixture
def dot_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".env"


class TestPrecedence:
    def test_an_argument_wins_over_all(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Argument, environment, .env, default: the first that is there counts."""
        assert Settings().LLM_MODEL is None
        dot_env.write_text("LLM_MODEL=from-file\n")
        assert Settings().LLM_MODEL == "from-file"
        monkeypatch.setenv("LLM_MODEL", "from-environment")
        assert Settings().LLM_MODEL == "from-environment"
        assert Settings(LLM_MODEL="from-argument").LLM_MODEL == "from-argument"

    def test_of_two_names_the_first_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both names are read; where both are set the first one counts."""
        monkeypatch.setenv("RESEARCH_BRIDGE_SEARXNG_URL", "http://second.example")
        assert Settings().SEARXNG_URL == ("http://second.example",)
        monkeypatch.setenv("SEARXNG_URL", "http://first.example")
        assert Settings().SEARXNG_URL == ("http://first.example",)

    def test_the_environment_wins_even_by_its_second_name(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where it stands comes before what it is called."""
        dot_env.write_text("LOG_LEVEL=ERROR\n")
        monkeypatch.setenv("RESEARCH_BRIDGE_LOG_LEVEL", "DEBUG")
        assert Settings().LOG_LEVEL == "DEBUG"

    def test_an_empty_variable_is_not_set(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Empty lets the next place speak, and an empty first name the second one."""
        dot_env.write_text("SEARXNG_TIMEOUT_S=3\n")
        monkeypatch.setenv("SEARXNG_TIMEOUT_S", "")
        monkeypatch.setenv("KIMI_API_KEY", "")
        monkeypatch.setenv("RESEARCH_BRIDGE_KIMI_API_KEY", KEY)
        settings = Settings()
        assert settings.SEARXNG_TIMEOUT_S == 3
        assert SecretStr(KEY) == settings.KIMI_API_KEY

    @pytest.mark.parametrize("field", [name for name in ALL if len(variable_names(name)) > 1])
    def test_origin_names_the_variable_that_counted(self, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where a setting comes from is told with the name that it came by."""
        first, second = variable_names(field)
        assert origin(field, {}) == (first, "default")
        monkeypatch.setenv(second, "x")
        assert origin(field, {}) == (second, "environment")
        assert origin(field, {first: "y"}) == (first, "argument")

    def test_a_file_of_another_editor(self, dot_env: Path) -> None:
        """A byte order mark, export, quotes and comments are no obstacle."""
        dot_env.write_bytes(b"\xef\xbb\xbfLLM_MODEL=a # why\r\nexport KIMI_MODEL='b c'\r\n\r\n# nothing\r\n")
        settings = Settings()
        assert (settings.LLM_MODEL, settings.KIMI_MODEL) == ("a", "b c")
        assert set(environment()[".env"]) == {"LLM_MODEL", "KIMI_MODEL"}

    def test_a_file_that_is_no_text_is_named(self, dot_env: Path) -> None:
        """A .env that cannot be decoded stops the start with a word about it, not with a traceback of bytes."""
        dot_env.write_bytes(b"LLM_MODEL=\xff\xfe")
        with pytest.raises(SettingsError, match=r"^\.env cannot be read .* UTF-8$"):
            Settings.load()


class TestReading:
    def test_everything_has_an_offline_default(self) -> None:
        """With nothing set there are settings, and none of them reaches out with a key."""
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
            ("SEARXNG_URL", "http://a.example/, https://b.example:8443/x/", ("http://a.example", "https://b.example:8443/x")),
            ("SEARXNG_ENGINES_NEWS", "google news,, bing news", ("google news", "bing news")),
            ("BOCHA_BASE_URL", "https://api.bocha.cn/", "https://api.bocha.cn"),
            ("LLM_MODEL", "  spaced  ", "spaced"),
            ("CACHE_TTL_S", "0", 0.0),
            ("UPSTREAM_PROXY", "http://me:word@proxy.example:3128", "http://me:word@proxy.example:3128"),
            ("LLM_BASE_URL", "http://[::1]:8000/v1", "http://[::1]:8000/v1"),
            ("READERS", " Direct, jina,direct", ("direct", "jina")),
            ("READER_ALLOWED_HOSTS", "Wiki:8080, 10.1.2.3/16,[::1]:80,::1", ("wiki:8080", "10.1.0.0/16", "[::1]:80", "::1")),
            ("LLM_PROVIDERS", '[{"name": "a", "model": "m"}]', (LLMProviderSettings(name="a", model="m"),)),
        ],
    )
    def test_a_variable_is_read_as_people_write_it(
        self, name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Blanks, case, trailing slashes and repetitions are forgiven where they can mean only one thing."""
        monkeypatch.setenv(name, text)
        assert getattr(Settings(), name) == value

    def test_a_folder_below_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No shell expands the tilde of a variable in a file: we do."""
        monkeypatch.setenv("DOCUMENTS_DIR", "~/papers")
        assert Path.home() / "papers" == Settings().DOCUMENTS_DIR

    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("SEARXNG_URL", "localhost:8080", "must begin with http:// or https://"),
            ("LLM_BASE_URL", "http://me:word@a.example", "must hold no user name or password"),
            ("SEARXNG_URL", "http://a.example/search?format=json", "must be a plain address"),
            ("SEARXNG_URL", "http://", "must be a plain address"),
            ("SEARXNG_URL", "http://a b", "must be a plain address"),
            ("LLM_BASE_URL", "http://127.0.0.1\\@1.1.1.1", "must be a plain address"),
            ("LLM_BASE_URL", "http://a.example:99999", "must have a port below 65536"),
            ("LLM_PLATFORM_PORT", "http", "must be a valid integer."),
            ("LLM_PLATFORM_PORT", "70000", "must be less than or equal to 65535"),
            ("LLM_PLATFORM_OFFLINE", "perhaps", "must be true or false"),
            ("LOG_LEVEL", "loud", "must be 'DEBUG', 'INFO'"),
            ("LLM_TIMEOUT_S", "inf", "must be"),
            ("LLM_TIMEOUT_S", "nan", "must be"),
            ("LLM_TIMEOUT_S", "0", "must be greater than 0"),
            ("READERS", "google", "must be 'jina' or 'direct'"),
            ("READERS", ",", "must have at least 1 item"),
            ("JINA_RPS", "0", "must be greater than 0"),
            ("READER_ALLOWED_HOSTS", "http://wiki", "names a network that is none"),
            ("READER_ALLOWED_HOSTS", "wiki:0", "must name hosts"),
            ("READER_ALLOWED_HOSTS", "a b", "must name hosts"),
            ("READER_ALLOWED_HOSTS", "10.0.0.0/33", "names a network that is none"),
            ("LLM_PROVIDERS", "name: local", "must be JSON"),
            ("LLM_PROVIDERS", '[{"name": "a"}]', r"\(0\.model\) is missing"),
            ("LLM_PROVIDERS", '[{"name": "a", "model": "m", "url": "x"}]', r"\(0\.url\) is not known"),
            ("LLM_PRICES", "[1]", "must be a valid dictionary"),
            ("KIMI_API_KEY", "sk-kimi\u2019s", "copy the key again"),
        ],
    )
    def test_a_variable_that_cannot_be_read_is_explained(
        self, name: str, text: str, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The message names the variable, says what is wrong in plain words and gives an example."""
        monkeypatch.setenv(name, text)
        with pytest.raises(SettingsError, match=rf"^{name} .*{says}.*Example: {name}=\S") as caught:
            Settings.load()
        assert "Value error" not in str(caught.value)
        assert "unable to" not in str(caught.value)

    def test_the_second_name_is_named_when_it_was_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever set the second name is told about that one."""
        monkeypatch.setenv("RESEARCH_BRIDGE_LOG_LEVEL", "loud")
        with pytest.raises(SettingsError, match=r"^RESEARCH_BRIDGE_LOG_LEVEL must be"):
            Settings.load()

    def test_each_wrong_variable_gets_its_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """All that is wrong is told at once."""
        monkeypatch.setenv("LLM_PLATFORM_PORT", "x")
        monkeypatch.setenv("LLM_TIMEOUT_S", "x")
        with pytest.raises(SettingsError) as caught:
            Settings.load()
        assert [line.split()[0] for line in str(caught.value).splitlines()] == ["LLM_PLATFORM_PORT", "LLM_TIMEOUT_S"]

    def test_what_is_wrong_twice_is_told_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two unknown names in one list are one mistake of one kind."""
        monkeypatch.setenv("READERS", "google,yahoo")
        with pytest.raises(SettingsError) as caught:
            Settings.load()
        assert len(str(caught.value).splitlines()) == 1

    def test_settings_do_not_change(self) -> None:
        """Who holds settings can rely on them."""
        with pytest.raises(ValidationError):
            Settings().LLM_MODEL = "other"  # type: ignore[misc]

    @given(st.text(max_size=40))
    def test_any_address_is_read_or_refused(self, text: str) -> None:
        """No text makes reading an address fail in another way, and what is read begins like an address."""
        try:
            settings = Settings(LLM_BASE_URL=text)
        except ValidationError:
            return
        assert (settings.LLM_BASE_URL or "").lower().startswith(("http://", "https://"))


class TestSecrets:
    def test_no_secret_is_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither repr nor str nor a dump for people holds a key, wherever it was configured."""
        monkeypatch.setenv("LLM_PROVIDERS", f'[{{"name": "a", "model": "m", "api_key": "{KEY}-listed"}}]')
        settings = Settings(
            BOCHA_API_KEY=f"{KEY}-bocha",
            SEARXNG_PASSWORD=f"{KEY}-basic",
            LLM_PLATFORM_API_KEYS=f"{KEY}-one,{KEY}-two",
            UPSTREAM_PROXY=f"http://me:{KEY}-proxy@proxy.example",
            SEARXNG_URL=f"http://me:{KEY}-%2F@a.example,http://b.example",
        )
        assert KEY not in repr(settings) + str(settings)
        names = ("listed", "bocha", "basic", "one", "two", "proxy", "%2F", "/")
        assert set(settings.secrets()) == {f"{KEY}-{name}" for name in names}
        assert KEY not in "".join(written(getattr(settings, name)) for name in ALL)

    def test_short_secrets_are_not_searched_for(self) -> None:
        """Seven characters would blank out ordinary words."""
        assert Settings(BOCHA_API_KEY="seven77", KIMI_API_KEY="eight888").secrets() == ("eight888",)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"LLM_PROVIDERS": f'[{{"api_key": "{KEY}"}}]'},
            {"LLM_PROVIDERS": f"{KEY} is no JSON"},
            {"KIMI_API_KEY": f"{KEY}\u200b!"},
            {"LLM_BASE_URL": f"http://me:{KEY}@a.example"},
        ],
    )
    def test_no_error_holds_a_secret(self, wrong: dict[str, str]) -> None:
        """pydantic's error of `Settings()` tells nothing of the input, in no form."""
        with pytest.raises(ValidationError) as caught:
            Settings(**wrong)
        error = caught.value
        assert KEY not in str(error) + repr(error) + error.json() + str(error.errors())

    def test_a_key_with_a_line_end_is_a_key(self) -> None:
        """A key read from a file often ends in one, and a header cannot."""
        settings = Settings(KIMI_API_KEY=SecretStr(f"{KEY}\n"))
        assert SecretStr(KEY) == settings.KIMI_API_KEY

    def test_a_key_that_is_no_text_is_refused(self) -> None:
        """What is no text is not read as a key."""
        with pytest.raises(ValidationError, match="must be a valid"):
            Settings(KIMI_API_KEY=17, LLM_PLATFORM_API_KEYS=17)


class TestUnknownVariables:
    def test_a_slip_is_named_with_what_was_meant(self) -> None:
        """A variable with one of our prefixes that is no setting gets a warning; others are none of our business."""
        seen = ["SEARXNG_ULR", "LLM_TIMEOUT_S", "PATH", "searxng_url", "CACHE_OF_ANOTHER_PROGRAM"]
        assert unknown_variables(dict.fromkeys(seen)) == [
            "CACHE_OF_ANOTHER_PROGRAM is not a setting",
            "SEARXNG_ULR is not a setting; did you mean SEARXNG_URL?",
            "searxng_url is not a setting; did you mean SEARXNG_URL?",
        ]

    @pytest.mark.parametrize(
        ("name", "meant"),
        [("LLM_KEY", "; did you mean LLM_API_KEY?"), ("searxng_url", "; did you mean SEARXNG_URL?"), ("NO_SUCH_THING", "")],
    )
    def test_an_argument_that_is_no_setting_is_refused(self, name: str, meant: str) -> None:
        """Code that passes it would go on without its key: the error names it and the nearest setting, not its value."""
        with pytest.raises(ValidationError) as refused:
            Settings(**{name: KEY})
        (detail,) = refused.value.errors()
        assert detail["loc"] == (name,)
        assert detail["msg"] == f"is not a setting{meant}"
        assert KEY not in f"{refused.value!s}{refused.value!r}{refused.value.errors()}"
        with pytest.raises(SettingsError, match=f"^{name} is not a setting"):
            Settings.load(**{name: KEY})

    def test_the_environment_stays_tolerant(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A variable may be meant for another program: it stops no start. A setting's second name is a setting."""
        dot_env.write_text("BOCHA_KEY=b\n")
        monkeypatch.setenv("LLM_KEY", "k")
        assert Settings().LLM_API_KEY is None
        assert Settings(RESEARCH_BRIDGE_LOG_LEVEL="DEBUG").LOG_LEVEL == "DEBUG"
        assert Settings(_env_file=None).LOG_LEVEL == "INFO"

    def test_environment_and_file_are_looked_at(self, dot_env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both places where a variable can stand are searched for slips."""
        dot_env.write_text("KIMI_KEY=x\n")
        monkeypatch.setenv("BOCHA_KEY", "x")
        assert [line.split()[0] for line in unknown_variables()] == ["BOCHA_KEY", "KIMI_KEY"]


class TestDescription:
    @pytest.mark.parametrize("field", ALL)
    def test_every_setting_says_what_it_is(self, field: str) -> None:
        """The reference is made from the class: a field without words would be a hole in it."""
        assert Settings.model_fields[field].description

    @pytest.mark.parametrize("field", ALL)
    def test_every_example_can_be_read(self, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What an error message proposes works."""
        name, _, value = example(field).partition("=")
        monkeypatch.setenv(name, value)
        assert Settings().model_fields_set == ({name} if value else set())

    def test_sections_begin_at_fields(self) -> None:
        """Headings hang on fields that exist, the first of them on the first field."""
        assert set(SECTIONS) <= set(ALL)
        assert next(iter(SECTIONS)) == ALL[0]

    @pytest.mark.parametrize(
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
    def test_a_value_is_written_as_it_would_be_set(self, value: object, text: str) -> None:
        """The written form can be put into a variable."""
        assert written(value) == text


def test_limits_set_out_of_the_way_stop_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever measures sets limits so high that none is met: the names of other systems are read with such values too."""
    for name in ("LIMIT_SEARCHXNG_RPM", "LIMIT_JINA_RPS", "LIMIT_AITUNNEL_RPS", "RATE_LIMIT_PER_MINUTE", "RATE_LIMIT_BURST"):
        monkeypatch.setenv(name, "100000000")
    assert Settings.load().JINA_RPS == 100_000_000
