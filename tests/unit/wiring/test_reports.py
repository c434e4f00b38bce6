"""The settings of reports reach the stages."""

from __future__ import annotations

from dataclasses import fields

from tests.support.cases import for_each

from modules.llm_platform.application.research.report.run import ReportOptions
from modules.llm_platform.wiring.answers import build_report_options
from shared.config import Settings

PREFIX = "REPORT_"
REPORT_SETTINGS = tuple(name for name in Settings.model_fields if name.startswith(PREFIX))


@for_each("name", REPORT_SETTINGS)
def test_a_setting_of_reports_is_the_option_of_its_name(name: str) -> None:
    """A field of `ReportOptions` and a field of `Settings` are all that a setting of reports needs to reach the stages."""
    option = name.removeprefix(PREFIX).lower()
    assert option in {field.name for field in fields(ReportOptions)}, (
        f"{name} needs the field {option} of ReportOptions"
    )
    default = Settings.model_fields[name].default
    assert getattr(build_report_options(Settings.without_environment()), option) == default
    assert getattr(build_report_options(Settings.without_environment(**{name: default + 1})), option) == default + 1
