"""What `doctor` and `worker --check` found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from modules.llm_platform.application.services.doctor_service import Finding, Verdict
from modules.llm_platform.presentation.cli.console import Console, Line, Style
from modules.llm_platform.presentation.cli.exit_codes import CommandError

SUBJECT_WIDTH: Final = 20  # at least
MARKS: Final[Mapping[Verdict, tuple[str, Style]]] = {
    "ok": ("✔", "green"), "warning": ("!", "yellow"), "failed": ("✘", "red"),
}  # fmt: skip


def tell(console: Console, findings: Sequence[Finding], *, as_json: bool) -> None:
    """A line for each, or one object with all; CommandError, which names those that failed."""
    if as_json:
        from modules.llm_platform.presentation.cli.as_json import dumped

        checks = [{"subject": each.subject, "verdict": each.verdict, "text": each.text} for each in findings]
        console.verbatim(dumped({"checks": checks}))
    else:
        console.lines(_lines(findings))
    failed = [each.subject for each in findings if each.verdict == "failed"]
    if failed:
        raise CommandError(f"not well: {', '.join(dict.fromkeys(failed))}")


def _lines(findings: Sequence[Finding]) -> Iterator[Line]:
    width = max([SUBJECT_WIDTH, *(len(each.subject) for each in findings)])
    for each in findings:
        mark, style = MARKS[each.verdict]
        yield Line(f"{mark} {each.verdict:<7}  {each.subject:<{width}} {' '.join(each.text.split())}", style)
