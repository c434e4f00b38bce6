"""Equal calls of a model at the same time are one call."""

from collections.abc import AsyncIterator
from functools import partial

from modules.llm_platform.domain.concurrency.single_flight import SingleFlight
from modules.llm_platform.domain.dtos.llm_dtos import NOTHING_SPENT, LLMRequest, LLMResponse, LLMStreamPart
from modules.llm_platform.domain.ports.llm import ILLMProvider


class SingleFlightLLM(ILLMProvider):
    """Makes one call for equal requests for a complete answer at the same time. Requests that join a call spend nothing.

    This is for prompts of the platform, such as a plan. Streams pass through, and so do chats of users, who expect an answer of
    their own.
    """

    def __init__(self, provider: ILLMProvider) -> None:
        self.name = provider.name
        self.model = provider.model
        self.is_free = provider.is_free
        self._provider = provider
        self._flights: SingleFlight[LLMResponse] = SingleFlight()

    async def generate(self, request: LLMRequest) -> LLMResponse:
        key = request.model_dump_json()  # a request with a JSON schema has no hash
        answer, has_joined = await self._flights.run(key, partial(self._provider.generate, request))
        return answer.model_copy(update={"spent": NOTHING_SPENT}) if has_joined else answer

    def stream(self, request: LLMRequest) -> AsyncIterator[LLMStreamPart]:
        return self._provider.stream(request)
