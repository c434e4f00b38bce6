"""One handler for each kind of error that the application knows; what nobody expected ends in the guard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from modules.llm_platform.presentation.rest.body import field_errors
from modules.llm_platform.presentation.rest.errors import (
    BadRequestError,
    InvalidRequestError,
    MethodNotAllowedError,
    NotFoundError,
    RestError,
)
from modules.llm_platform.presentation.rest.problems import problem_response
from shared.exceptions import AppException

OF_STATUS: dict[int, type[RestError]] = {404: NotFoundError, 405: MethodNotAllowedError}


def add_error_handlers(app: FastAPI) -> None:
    """Every error leaves as a problem, also those of the framework."""
    app.add_exception_handler(AppException, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _of_the_framework)


async def _ours(request: Request, error: Any) -> Response:
    return problem_response(error, request.scope)


async def _invalid(request: Request, error: Any) -> Response:
    return problem_response(InvalidRequestError(field_errors(error.errors())), request.scope)


async def _of_the_framework(request: Request, error: Any) -> Response:
    kind = OF_STATUS.get(error.status_code, BadRequestError)
    headers = {"Allow": _allowed(request)} if kind is MethodNotAllowedError else None
    return problem_response(kind(headers=headers), request.scope)


def _allowed(request: Request) -> str:
    """All methods of the address: the framework names only those of the first route that has it."""
    routes: Sequence[Route] = request.app.router.routes
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in matching for method in route.methods or ()}))
