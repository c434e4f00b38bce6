"""Answer a message that takes neither a search nor a model."""

from modules.llm_platform.application.research import events as research_events
from modules.llm_platform.application.research.response import make_short_message_response
from modules.llm_platform.application.research.run import EmitEvent
from modules.llm_platform.domain.dtos.request_dtos import ShortMessage, StoredTurns
from modules.llm_platform.domain.text.language import DEFAULT_LANGUAGE, detect_language, detect_language_of_script


def answer_short_message(message: ShortMessage, request_id: str, before: StoredTurns | None, emit: EmitEvent) -> None:
    """Emit the events of an answer that takes neither a search nor a model."""
    own = message.language or detect_language_of_script(message.query)
    language = own or (before and before.language) or detect_language(message.instructions or "") or DEFAULT_LANGUAGE
    response = make_short_message_response(message, request_id, language)
    emit(research_events.Started(request_id=request_id))
    emit(research_events.SourcesNumbered(request_id=request_id, sources=()))
    emit(research_events.Token(request_id=request_id, text=response.synthesis))
    emit(research_events.Done(request_id=request_id, response=response))
