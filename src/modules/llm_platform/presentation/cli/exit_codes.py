"""Exit codes of the commands: 0 done, 1 failed, 2 wrong use, 130 interrupted."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, Self, TypeVar

import typer

from modules.llm_platform.domain.telemetry.metrics import OK, result_label
from modules.llm_platform.presentation.cli.console import Console
from shared.config import Settings, SettingsError
from shared.exceptions import AppException
from shared.logging import configure_logging

log = logging.getLogger(__name__)

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130

Result = TypeVar("Result")


class CommandError(Exception):
    """Ends the command with this exit code. The message is the one line on standard error."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        self.code = code
        super().__init__(message)

    @classmethod
    def from_status(cls, status: int, message: str) -> Self:
        """Return the error for an HTTP status: 422 is wrong use."""
        return cls(message, WRONG_USE if status == HTTPStatus.UNPROCESSABLE_ENTITY else FAILED)


@contextmanager
def exit_codes(console: Console) -> Iterator[None]:
    """Turn every exception of a command into an exit code and one line on standard error, without a traceback."""
    try:
        with console.ignore_broken_pipe():
            yield
    except AppException as error:
        raise _exit(console, CommandError.from_status(error.status_code, error.explain())) from None
    except CommandError as error:
        raise _exit(console, error) from None
    except SettingsError as error:
        for line in str(error).splitlines():
            console.print_error(line)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (
        OSError
    ) as error:  # Errors of upstreams and files are other exceptions by now: this one is of standard output.
        raise typer.Exit(report_unwritable(console, error)) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:  # The outermost loop: the user gets one line, the log the traceback.
        _configure_requested_logging()
        log.debug("unexpected error in a command", exc_info=True)
        message = f"unexpected error ({type(error).__name__}): set LOG_LEVEL=DEBUG to log the traceback"
        raise _exit(console, CommandError(message)) from None


def report_unwritable(console: Console, error: OSError) -> int:
    """Print that standard output could not be written to, and return the exit code."""
    console.discard_output()
    console.print_error(f"standard output could not be written: {error.strerror or type(error).__name__}")
    return FAILED


def describe_result(error: BaseException | None) -> str:
    """Return how a command with this exception ended: ok, cancelled, wrong_use, failed, or the code of the error."""
    match error:
        case typer.Exit(exit_code=0):
            return OK
        case CommandError(__cause__=AppException(code=code)):
            return code
        case typer.BadParameter() | CommandError(code=2):  # WRONG_USE
            return "wrong_use"
        case typer.Exit() | CommandError() | SettingsError():
            return "failed"
    return result_label(error)


def run_async(
    work: Coroutine[Any, Any, Result], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Result:
    """Run the coroutine to its end. Ctrl-C cancels it, which closes its connections, and raises KeyboardInterrupt."""
    runner = asyncio.Runner(loop_factory=loop_factory)
    interrupted = False
    try:
        return runner.run(work)
    except KeyboardInterrupt:
        interrupted = True
        raise
    finally:
        # Closing the runner waits for its threads. After Ctrl-C only the loop is closed: a thread cannot be cancelled.
        (runner.get_loop() if interrupted else runner).close()


def _configure_requested_logging() -> None:
    """Configure logging if LOG_LEVEL is set and the command failed before it configured logging itself."""
    with suppress(SettingsError):
        settings = Settings.load()
        if "LOG_LEVEL" in settings.model_fields_set and not logging.getLogger().handlers:
            configure_logging(settings.LOG_LEVEL, settings.LOG_FORMAT, settings.secrets())


def _exit(console: Console, error: CommandError) -> typer.Exit:
    console.print_error(str(error))
    return typer.Exit(error.code)
