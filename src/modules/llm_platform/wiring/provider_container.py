"""A declarative container of dependency-injector's providers, without its module `containers`.

Importing `dependency_injector.containers` imports FastAPI, Starlette and werkzeug wherever they are installed, to inject into
their handlers. Importing `dependency_injector.providers` does not (docs/adr/0056-mount-in-a-host-application.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dependency_injector.providers import Provider, Self, deepcopy


class ProviderContainer:
    """Providers as class attributes. Each instance has copies of them, so overriding one changes this instance alone.

    `values` override providers, such as those of type `Dependency`. A provider of type `Self` provides the instance.
    """

    providers: Mapping[str, Provider[Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own_providers = {name: value for name, value in vars(cls).items() if isinstance(value, Provider)}
        cls.providers = {**cls.providers, **own_providers}

    def __init__(self, **values: object) -> None:
        self.providers = deepcopy(self.providers)
        for name, provider in self.providers.items():
            setattr(self, name, provider)
            if isinstance(provider, Self):
                provider.set_container(self)
        for name, value in values.items():
            self.providers[name].override(value)
