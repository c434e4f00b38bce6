"""Who plays: the script of each player, and what is installed for it from the package index, in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLAYERS: Final = Path(__file__).resolve().parent / "players"
ROOT: Final = PLAYERS.parent.parent
INSTALL_TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True)
class Player:
    """`environment` is None if this project's own environment runs the player. `timeout_s` limits one question."""

    name: str
    title: str
    script: str
    arguments: tuple[str, ...] = ()
    environment: str | None = None
    requirements: tuple[str, ...] = ()
    needs_model: bool = True
    timeout_s: int = 900

    @property
    def version(self) -> str:
        return self.requirements[0].partition("==")[2] if self.requirements else "this checkout"


OURS: Final = (
    Player("ours-quotes", "ours, without a model", "ours.py", ("quotes",), needs_model=False, timeout_s=120),
    Player("ours-shallow", "ours, shallow", "ours.py", ("shallow",)),
    Player("ours-deep", "ours, deep", "ours.py", ("deep",)),
    Player("ours-report", "ours, report", "ours.py", ("report",), timeout_s=1800),
)
OTHERS: Final = (
    Player("plain-loop", "plain loop of 60 lines", "plain_loop.py"),
    Player(
        "langchain",
        "LangChain's retrieval chain",
        "langchain_chain.py",
        environment="langchain",
        requirements=(
            "langchain==1.5.2",
            "langchain-community==0.4.2",
            "langchain-openai==1.7.4",
            "langchain-text-splitters==1.1.3",
            "beautifulsoup4==4.15.0",
        ),
    ),
    Player(
        "gpt-researcher",
        "gpt-researcher",
        "gpt_researcher_report.py",
        environment="gptr",
        requirements=("gpt-researcher==0.15.1",),
        timeout_s=1800,
    ),
    Player(
        "local-deep-research",
        "local-deep-research",
        "local_deep_research_summary.py",
        environment="ldr",
        requirements=("local-deep-research==1.5.6",),
        timeout_s=1800,
    ),
)
ROSTER: Final = {player.name: player for player in (*OURS, *OTHERS)}
QUICK: Final = ("ours-shallow", "plain-loop")
# Tried and left out, with the reason that the table prints.
LEFT_OUT: Final = {
    "open_deep_research 0.0.16": "its package searches with Tavily, OpenAI, Anthropic or MCP only, not with SearXNG",
    "STORM (knowledge-storm 1.1.1)": "it cannot be imported with the versions that an installer picks for it "
    "(sentence-transformers 2.2.2 and huggingface-hub 0.36: no cached_download)",
}


class InstallError(Exception):
    """An environment could not be made. The message is the last line of the installer."""


def python_of(player: Player, home: Path) -> Path:
    """Return the interpreter of a player. Makes its environment if there is none."""
    if player.environment is None:
        return Path(sys.executable)
    folder = home / "envs" / player.environment
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(player.requirements)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    print(f"installing {' '.join(player.requirements)} into {folder}", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True)
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *player.requirements]
    done = subprocess.run(words, text=True, stderr=subprocess.PIPE, timeout=INSTALL_TIMEOUT_S, check=False)
    if done.returncode:
        raise InstallError((done.stderr.strip().splitlines() or ["the installer failed"])[-1])
    stamp.write_text(wanted, encoding="utf-8")
    return python
