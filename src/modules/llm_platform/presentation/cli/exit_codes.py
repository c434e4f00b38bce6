"""How a command ends: 0 done, 1 failed with one line, 2 wrong use, 130 interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

import typer

from modules.llm_platform.presentation.cli.console import Console
from shared.config import Settings, SettingsError
from shared.exceptions import AppException
from shared.logging import configure_logging

log = logging.getLogger(__name__)

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
CALLERS_MISTAKE = 422  # the status of errors that another request would not raise

Result = TypeVar("Result")


class CommandError(Exception):
    """The command ends here; the message is the one line that says why."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        self.code = code
        super().__init__(message)

    @classmethod
    def of(cls, status: int, message: str) -> Self:
        """The end that an HTTP status stands for."""
        return cls(message, WRONG_USE if status == CALLERS_MISTAKE else FAILED)


@contextmanager
def exit_codes(console: Console) -> Iterator[None]:
    """Turns what a command raises into one line on standard error and an exit code; no traceback ever."""
    try:
        with console.quiet_when_nobody_reads():
            yield
    except AppException as error:
        raise _end(console, CommandError.of(error.status_code, error.message)) from None
    except CommandError as error:
        raise _end(console, error) from None
    except SettingsError as error:
        for line in str(error).splitlines():
            console.fail(line)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:  # those of upstreams and files have been decided upon where they came from
        console.drop_output()
        said = error.strerror or type(error).__name__
        raise _end(console, CommandError(f"the answer could not be written: {said}")) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:  # the outermost loop: a person gets one line, the log the traceback
        _listen()
        log.debug("a command failed in a way that nobody foresaw", exc_info=True)
        console.fail(f"this should not have happened ({type(error).__name__}); LOG_LEVEL=DEBUG shows where")
        raise typer.Exit(FAILED) from None


def _listen() -> None:
    """Let the log be seen where LOG_LEVEL asks for it and the command failed before it had set it up."""
    with suppress(SettingsError):
        settings = Settings.load()
        if "LOG_LEVEL" in settings.model_fields_set and not logging.getLogger().handlers:
            configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())


def _end(console: Console, error: CommandError) -> typer.Exit:
    console.fail(str(error))
    return typer.Exit(error.code)


def run(work: Coroutine[Any, Any, Result], make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Result:
    """Run to the end. Ctrl-C cancels the work, which closes its connections, and raises KeyboardInterrupt."""
    runner = asyncio.Runner(loop_factory=make_loop)
    interrupted = False
    try:
        return runner.run(work)
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        # Closing the runner waits for threads; after Ctrl-C nobody waits for what cannot be cancelled.
        (runner.get_loop() if interrupted else runner).close()
