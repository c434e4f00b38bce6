"""The ports behind the health report: adapters with a check, and the circuits of their services."""

from typing import Literal, Protocol, runtime_checkable

CircuitState = Literal["closed", "half_open", "open"]


@runtime_checkable
class IHealthProbe(Protocol):
    """An adapter that can check at no cost whether its upstream would serve a request."""

    name: str

    async def ping(self) -> str:
        """Return a short status of the upstream. A store may return an empty status, which gets no line in the report.

        Raises an AppException, with cause and remedy, if it is unhealthy.
        """


class ICircuit(Protocol):
    """The circuit of one service: open, no call is made; half open, one call decides (a read-only view)."""

    @property
    def state(self) -> CircuitState: ...

    @property
    def failures(self) -> int:
        """Failed calls in a row."""
