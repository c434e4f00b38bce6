"""Each provider of the container fits the function or class that it calls. mypy does not check the arguments of a provider.

docs/adr/0045-the-container-stays-declarative.md gives the reason.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import pkgutil
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from dependency_injector import providers

import modules.llm_platform
import shared
from modules.llm_platform.container import Container

BUILDS = (providers.Singleton, providers.Factory, providers.Callable)
UNKNOWN = object()  # a type that is known only at run time, for example a setting's attribute


@cache
def names() -> Mapping[str, Any]:
    """Return the names that annotations may use, including names imported only for type checking."""
    found: dict[str, Any] = {**vars(typing), **vars(collections.abc)}
    for package in (modules.llm_platform, shared):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(("__main__", ".asgi", ".parsing.child")) and ".testing" not in module.name:
                found |= {
                    name: value
                    for name, value in vars(importlib.import_module(module.name)).items()
                    if name[0].isupper()
                }
    return found


def resolved(annotation: Any, module: str) -> Any:
    if annotation is inspect.Parameter.empty:
        return UNKNOWN
    if not isinstance(annotation, str):
        return annotation
    return eval(annotation, {**names(), **vars(importlib.import_module(module))})


def type_of(injection: Any) -> Any:
    """Return the type of the value that a provider returns."""
    if not isinstance(injection, providers.Provider):
        return type(injection)
    if isinstance(injection, providers.Dependency):
        return injection.instance_of
    if isinstance(injection, providers.Object):
        return type(injection.provides)
    if not isinstance(injection, BUILDS) or not injection.provides:
        return UNKNOWN
    called = injection.provides
    if inspect.isclass(called):
        return UNKNOWN if called.__module__ == "functools" else called
    return resolved(inspect.signature(called).return_annotation, called.__module__)


def fits(given: Any, wanted: Any) -> bool:
    """Return whether a value of type `given` may be passed as `wanted`. Return True if the types do not tell."""
    if UNKNOWN in (given, wanted) or Any in (given, wanted):
        return True
    if typing.get_origin(given) in (typing.Union, types.UnionType):
        return all(fits(argument, wanted) for argument in typing.get_args(given))
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        return any(fits(given, argument) for argument in typing.get_args(wanted))
    given, wanted = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if wanted is collections.abc.Callable or not (inspect.isclass(given) and inspect.isclass(wanted)):
        return given == wanted or callable(given) or isinstance(wanted, str | typing.TypeVar)
    if getattr(wanted, "_is_protocol", False):
        return all(hasattr(given, name) for name in vars(wanted) if not name.startswith("_"))
    return issubclass(given, wanted)


def all_providers(container: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield all providers by name, including providers nested in arguments."""
    waiting = list(container.providers.items())
    while waiting:
        name, provider = waiting.pop()
        yield name, provider
        inner = [*getattr(provider, "args", ()), *getattr(provider, "kwargs", {}).values()]
        known = {id(other) for other in container.providers.values()}
        waiting += [(f"{name}…", one) for one in inner if isinstance(one, providers.Singleton) and id(one) not in known]


def misfits(container: type[Any]) -> list[str]:
    found = []
    for name, provider in all_providers(container):
        if not isinstance(provider, BUILDS) or not provider.provides or type_of(provider) is UNKNOWN:
            continue
        called = provider.provides
        module = called.__module__
        try:
            signature = inspect.signature(called)
            # A Callable gets its remaining arguments when it is called.
            bind = signature.bind_partial if isinstance(provider, providers.Callable) else signature.bind
            bound = bind(*provider.args, **provider.kwargs)
        except TypeError as error:
            found.append(f"{name}: {error}")
            continue
        for parameter, value in bound.arguments.items():
            wanted = resolved(inspect.signature(called).parameters[parameter].annotation, module)
            if not isinstance(value, tuple | dict) and not fits(type_of(value), wanted):
                found.append(f"{name}: {parameter} is {wanted}, and gets {type_of(value)}")
    return found


def test_providers_fit_what_they_call() -> None:
    """Each argument matches a parameter of its type, and every parameter without a default gets an argument."""
    wrong = misfits(Container)
    assert not wrong, "These providers of container.py do not fit what they call:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("settings", "metrics", "redis"), "resources is"), (("settings", "redis"), "missing a required argument")],
)
def test_wrong_arguments_are_found(arguments: tuple[str, ...], said: str) -> None:
    """The check finds swapped and missing arguments. Otherwise the test above would accept any container."""

    class Wrong(Container):
        shared_state = providers.Singleton(
            Container.shared_state.provides, *(getattr(Container, name) for name in arguments)
        )

    assert any(said in misfit for misfit in misfits(Wrong))
