"""The arena: players answer questions over a frozen web, and a table says who was right and at what price.

    python -m arena.run                        all players and questions; stop it at any time, it continues where it was
    python -m arena.run --quick                ten questions, two players
    python -m arena.run --players ours-quotes,langchain --limit 12
    python -m arena.run --more                 forty further questions, written later, that no change was made with
    python -m arena.run --table                only the table of what was answered so far
    python -m arena.run --strangers            only who tried to reach which other servers
    python -m arena.run --check                only whether each fact is in its pages

Environment: ARENA_MODEL_URL and ARENA_MODEL (an OpenAI-compatible address and the model's name; without it only players that
need no model play), ARENA_MODEL_KEY, ARENA_HOME (environments, pages and outcomes; ~/.cache/llm-platform-arena), ARENA_DOCS (the
folder of `make debian-docs`; build/debian-docs), ARENA_PAGES (comma-separated list of more pages), ARENA_PORT (the first of
three ports, 8790), SEARXNG_URL (a real SearXNG on loopback whose one engine is the arena's search; arena/README.md).
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from arena.play import ModelUnreachableError, Settings, environment, is_done, play
from arena.questions import MORE_QUESTIONS, Question, in_turn, missing_facts, read_questions, score
from arena.report import print_strangers, print_table, write_page
from arena.roster import LEFT_OUT, QUICK, ROOT, ROSTER, InstallError, Player, python_of
from arena.server import LOOPBACK, ArenaServer, Ports
from arena.web import FrozenWeb, build_web

from modules.llm_platform.infrastructure.models.wordllama_embedder import WordllamaEmbedder

QUICK_QUESTIONS: Final = 10
NO_MODEL: Final = "no-model"


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def embed(texts: list[str]) -> list[list[float]]:
    vectors = await _EMBEDDER.embed(texts)
    return [list(vector) if vector is not None else [0.0] * _EMBEDDER.dimension for vector in vectors]


_EMBEDDER: Final = WordllamaEmbedder()  # loads at its first use


def load_web(questions: Sequence[Question], ports: Ports) -> FrozenWeb:
    docs = Path(os.environ.get("ARENA_DOCS") or ROOT / "build" / "debian-docs")
    given = [Path(entry) for entry in os.environ.get("ARENA_PAGES", "").split(",") if entry]
    if not docs.is_dir():
        raise SystemExit(f"{docs} has no pages: run `make debian-docs`, or name a folder with ARENA_DOCS")
    return build_web(docs, given, [page for question in questions for page in question.pages], ports.pages)


async def run(
    settings: Settings, server: ArenaServer, players: Sequence[Player], questions: Sequence[Question]
) -> None:
    """Ask every player each question, question by question, so that a run that was stopped compares all of them."""
    refused: dict[str, str] = {}
    for player in players:
        try:
            await asyncio.to_thread(python_of, player, settings.home)
        except (InstallError, subprocess.SubprocessError, OSError) as error:
            refused[player.name] = str(error)
            log(f"{player.name} cannot be installed: {error}")
    async with server.running():
        for number, question in enumerate(questions, 1):
            for player in players:
                if player.name in refused or is_done(settings, player, question):
                    continue
                outcome = await play(settings, server, player, question)
                result = "crashed: " + outcome["error"] if outcome["error"] else score(question, outcome["answer"])
                log(
                    f"{number}/{len(questions)} {question.id} {player.name}: {result}; {outcome['calls']} calls,"
                    f" {outcome['prompt_tokens'] + outcome['completion_tokens']} tokens, {outcome['wall_s']} s"
                )
        await check_citations(settings)


async def check_citations(settings: Settings) -> None:
    """Run the checker in a process that sees the frozen web. The server must be running."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(settings.ports, Path(folder) / "strangers.txt", Path(folder))
        env["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
        words = (sys.executable, "-m", "arena.checking", str(settings.runs))
        process = await asyncio.create_subprocess_exec(*words, env=env, cwd=ROOT)
        if await process.wait():
            raise SystemExit("the citations could not be checked")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_QUESTIONS} questions, {' and '.join(QUICK)}")
    parser.add_argument("--players", help=f"comma-separated list of {', '.join(ROSTER)}")
    parser.add_argument("--limit", type=int, help="only the first questions; the kinds take turns")
    parser.add_argument(
        "--more",
        action="store_true",
        help="forty further questions, written later, that no change was made with, in place of the sixty",
    )
    parser.add_argument("--table", action="store_true", help="ask nothing, print the table of what was answered")
    parser.add_argument("--strangers", action="store_true", help="ask nothing, print who tried to reach other servers")
    parser.add_argument("--check", action="store_true", help="ask nothing, look for each fact in its pages")
    parser.add_argument("--page", type=Path, help="also write the table into this page of the documentation")
    given = parser.parse_args()
    if given.more and given.page:
        parser.error("--page writes the table of the sixty questions: leave out --more")
    return given


def main() -> None:
    given = read_arguments()
    first_port = int(os.environ.get("ARENA_PORT", Ports.pages))
    ports = Ports(first_port, first_port + 1, first_port + 2)
    sixty, more = read_questions(), read_questions(MORE_QUESTIONS)
    web = load_web(sixty, ports)  # also for --more: further pages would be another web, and figures compare only on one
    if given.check:
        raise SystemExit("\n".join(missing_facts([*sixty, *more], web)) or 0)
    model_url, model = os.environ.get("ARENA_MODEL_URL", ""), os.environ.get("ARENA_MODEL", "")
    if bool(model_url) != bool(model):
        raise SystemExit("set both ARENA_MODEL_URL and ARENA_MODEL, or neither")
    home = Path(os.environ.get("ARENA_HOME") or Path.home() / ".cache" / "llm-platform-arena")
    folder = re.sub(r"[^\w.-]+", "-", model) or NO_MODEL
    runs = home / "runs" / (f"{folder}-more" if given.more else folder)
    searxng_url = os.environ.get("SEARXNG_URL") or f"http://{LOOPBACK}:{ports.pages}"
    settings = Settings(home, runs, ports, searxng_url, model, web.digest)
    questions = in_turn(more if given.more else sixty)[: QUICK_QUESTIONS if given.quick else given.limit]
    names = given.players.split(",") if given.players else QUICK if given.quick else tuple(ROSTER)
    if unknown := [name for name in names if name not in ROSTER]:
        raise SystemExit(f"there is no player {', '.join(unknown)}: choose from {', '.join(ROSTER)}")
    players = [ROSTER[name] for name in names if model or not ROSTER[name].needs_model]
    if not (given.table or given.strangers):
        log(f"{len(web.pages)} pages of {len(web.hosts)} hosts, {len(questions)} questions, {len(players)} players")
        if not model:
            log("ARENA_MODEL_URL is not set: only players that need no model play")
        server = ArenaServer(
            web, ports, model_url=model_url, model=model, key=os.environ.get("ARENA_MODEL_KEY", "none"), embed=embed
        )
        began = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):  # also in the background, where SIGINT is ignored
            signal.signal(number, signal.default_int_handler)
        try:
            asyncio.run(run(settings, server, players, questions))
        except KeyboardInterrupt:
            log("stopped; the same command goes on from here")
            sys.exit(130)
        except ModelUnreachableError:
            raise SystemExit(
                f"no answer from {model_url}: start the model; the same command goes on from here"
            ) from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise SystemExit(f"ports {ports.pages} to {ports.wall} are not free: set ARENA_PORT") from None
        log(f"{time.monotonic() - began:.0f} s")
    if given.strangers:
        print_strangers(runs)
        return
    print_table(runs, questions, web, LEFT_OUT)
    if given.page:
        write_page(given.page, runs, questions, web, LEFT_OUT, model=model)


if __name__ == "__main__":
    main()
