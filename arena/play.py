"""One player answers one question in a process of its own; the outcome is one file, written whole or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from arena.questions import Question
from arena.roster import PLAYERS, ROOT, Player, python_of
from arena.server import LOOPBACK, UNREACHABLE, ArenaServer, Log, Ports

SHIM: Final = ROOT / "arena" / "shim"
MAX_ERROR_CHARS: Final = 400


class ModelUnreachableError(Exception):
    """The model's server failed a call. Nothing is kept of the run: the player is not to blame."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`runs` has a folder for each player. `model` is the name that is sent, or empty if there is no model."""

    home: Path
    runs: Path
    ports: Ports
    searxng_url: str
    model: str
    digest: str


def environment(ports: Ports, strangers: Path, home: Path) -> dict[str, str]:
    """Return what a player sees: names of the arena, a wall to the rest, and nothing of the person who runs this."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    wall = f"http://{LOOPBACK}:{ports.wall}"
    open_hosts = f"{LOOPBACK},localhost,.test"
    proxies = {f"{scheme}_proxy": wall for scheme in ("http", "https", "all")} | {"no_proxy": open_hosts}
    return {
        **kept,
        **proxies,
        **{name.upper(): value for name, value in proxies.items()},
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": f"{SHIM}{os.pathsep}{ROOT / 'src'}",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARENA_STRANGERS": str(strangers),
    }


def path_of(settings: Settings, player: Player, question: Question) -> Path:
    return settings.runs / player.name / f"{question.id}.json"


def is_done(settings: Settings, player: Player, question: Question) -> bool:
    """Return whether there is an outcome of the same question, player and web."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        outcome = json.loads(path_of(settings, player, question).read_text(encoding="utf-8"))
        return bool(
            outcome["question"] == question.text
            and outcome["version"] == player.version
            and outcome["web"] == settings.digest
        )
    return False


async def play(settings: Settings, server: ArenaServer, player: Player, question: Question) -> dict[str, Any]:
    """Ask, and write the outcome with all calls of the model beside it. Raises ModelUnreachableError."""
    target = path_of(settings, player, question)
    target.parent.mkdir(parents=True, exist_ok=True)
    log = server.begin()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="arena-", ignore_cleanup_errors=True) as folder:
        strangers = Path(folder) / "strangers.txt"
        transcript = target.with_suffix("")
        for stale in target.parent.glob(f"{question.id}.sealed.*"):
            stale.unlink()
        given = {
            "question": question.text,
            "searxng_url": settings.searxng_url,
            "model_url": f"http://{LOOPBACK}:{settings.ports.model}/v1",
            "model": settings.model,
            "data_dir": f"{folder}/data",
            "transcript": str(transcript),
        }
        words = [str(python_of(player, settings.home)), str(PLAYERS / player.script), *player.arguments]
        answered, error = await _run(words, given, player, environment(settings.ports, strangers, Path(folder)), folder)
        names = strangers.read_text(encoding="utf-8").split() if strangers.exists() else []
    if any(call.get("status") == UNREACHABLE for call in log.calls):
        raise ModelUnreachableError
    outcome = _outcome(settings, player, question, log, answered, error)
    outcome |= {"wall_s": round(time.monotonic() - began, 1), "strangers": sorted(names + log.strangers)}
    _write(
        target.with_suffix(".calls.jsonl"), "".join(json.dumps(call, ensure_ascii=False) + "\n" for call in log.calls)
    )
    _write(target, json.dumps(outcome, ensure_ascii=False, indent=1))
    return outcome


async def _run(
    words: list[str], given: dict[str, Any], player: Player, env: dict[str, str], folder: str
) -> tuple[dict[str, Any] | None, str]:
    """Return what the player answered, or None and why it did not."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *words, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=folder, start_new_session=True
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(json.dumps(given).encode()), player.timeout_s)
    except TimeoutError:
        return None, f"no answer within {player.timeout_s} s"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    try:
        answered = json.loads(output)
        return {"answer": str(answered["answer"]), **{k: v for k, v in answered.items() if k != "answer"}}, ""
    except (ValueError, KeyError, TypeError):
        lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
        return None, (lines or [f"exit {process.returncode}"])[-1].strip()[:MAX_ERROR_CHARS]


def _outcome(
    settings: Settings, player: Player, question: Question, log: Log, answered: dict[str, Any] | None, error: str
) -> dict[str, Any]:
    called = [call for call in log.calls if call.get("status") == 200]
    answered = answered or {}
    return {
        "player": player.name,
        "version": player.version,
        "id": question.id,
        "kind": question.kind,
        "question": question.text,
        "web": settings.digest,
        "answer": answered.get("answer", ""),
        "sources": answered.get("sources", []),
        "error": error,
        "seconds": answered.get("seconds"),
        "calls": len(called),
        "failed_calls": len(log.calls) - len(called),
        "prompt_tokens": sum(call.get("prompt_tokens", 0) for call in called),
        "completion_tokens": sum(call.get("completion_tokens", 0) for call in called),
        "cached_tokens": sum(call.get("cached_tokens", 0) for call in called),
        "embeddings": log.embeddings,
        "searches": log.searches,
        "shown": sorted(log.shown),
        "fetched": sorted(log.fetched),
        "missing": log.missing,
        "asked_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "load": round(os.getloadavg()[0], 1),
    }


def _write(path: Path, text: str) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
