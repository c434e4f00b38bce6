"""List the choices of a research request on this server, for clients that offer them (docs/reference/http.md)."""

from typing import Final, get_args

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from modules.llm_platform.application.platform import LLMPlatform
from modules.llm_platform.domain.dtos.request_dtos import MAX_CONTEXT_CHARS, MAX_INSTRUCTION_CHARS, MAX_URLS, Depth
from modules.llm_platform.domain.dtos.uploaded_file_dtos import MAX_FILES, MAX_FILES_BYTES
from modules.llm_platform.domain.dtos.web_search_dtos import MAX_QUERY_CHARS, SourceKind
from modules.llm_platform.domain.urls.site_names import MAX_SITES
from modules.llm_platform.presentation.rest.http.problems import declare_problems
from modules.llm_platform.presentation.rest.http.request_scope import get_services
from modules.llm_platform.presentation.rest.http.responses import make_json_response

router = APIRouter(prefix="/research/options", tags=["research"])

MAX_TITLES: Final = 4
USUAL_SOURCE: Final[SourceKind] = "web"  # source of a request that names none


class ResearchChoices(BaseModel):
    """The choices of a request, as this server is configured.

    - `sources` can be searched.
    - `default_sources` are searched for a request that names none.
    - `models` are the language models that can write, empty if answers consist of quotes.
    - `max_file_bytes` is for all files of a request together.
    - `background` is True if runs can be queued and stored.
    - `document_titles` are a few titles of the documents that the operator provides.
    - `favicons` is True if the server sends the icons of sites.
    """

    model_config = ConfigDict(frozen=True)

    depths: tuple[Depth, ...] = get_args(Depth)
    sources: tuple[SourceKind, ...]
    default_sources: tuple[SourceKind, ...]
    models: tuple[str, ...] = ()
    max_query_chars: int = MAX_QUERY_CHARS
    max_context_chars: int = MAX_CONTEXT_CHARS
    max_instruction_chars: int = MAX_INSTRUCTION_CHARS
    max_domains: int = MAX_SITES
    max_urls: int = MAX_URLS
    max_files: int = MAX_FILES
    max_file_bytes: int = MAX_FILES_BYTES
    background: bool
    document_titles: tuple[str, ...] = ()
    favicons: bool = False


@router.get(
    "",
    summary="What a request of POST /research can choose on this server",
    response_model=ResearchChoices,
    responses=declare_problems(),
)
async def research_options(request: Request) -> Response:
    return make_json_response(await _list_choices(get_services(request)))


async def _list_choices(platform: LLMPlatform) -> ResearchChoices:
    sources = platform.source_kinds
    return ResearchChoices(
        sources=sources,
        default_sources=(USUAL_SOURCE,) if USUAL_SOURCE in sources else sources[:1],
        models=tuple(model.full_name for model in platform.llm.models if model.is_complete),
        background=platform.research_jobs.is_available,
        document_titles=await platform.document_titles(MAX_TITLES),
        favicons=platform.icons is not None,
    )
