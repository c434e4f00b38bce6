"""The prompts that plan the searches of a deep run and the sub-questions of a report, and the parser of the answers."""

from collections.abc import Sequence

from modules.llm_platform.application.research.model_output.lists import make_list_request, read_strings
from modules.llm_platform.domain.dtos.llm_dtos import LLMRequest
from modules.llm_platform.domain.research.content_words import shares_content_word
from modules.llm_platform.domain.text.language import get_language_name, get_primary_subtag
from modules.llm_platform.domain.untrusted.untrusted_text import one_line

PLAN_MAX_TOKENS = 1024  # leaves room for reasoning before the list

# Part of the keys of cached plans: raise it with every change of PROMPT.
PLAN_VERSION = "2"
PROMPT = """Split the question into {count} web searches that together answer it. Each covers another side of it and can be
understood without the others. Keep names and terms as they are; write in the language of the question.
Output only the searches, one per line, each starting with "Question:".

Question: {question}"""

# Part of the keys of stored plans and reports: raise it with every change of REPORT_PROMPT.
SUB_QUESTIONS_VERSION = "2"
REPORT_PROMPT = """\
Break the question down into up to {count} sub-questions, whose answers together make a report on it.
Each asks for one thing, is short and clear, and is understood without the others: it names what it is about. They cover \
different sides without overlap, first of all those that the question itself names. Names and terms stay as they are.
{rejected}Write in {language}. Output only the sub-questions, one a line, each after the mark "{mark}:".

Question: {question}"""
SUB_QUESTION_MARKS = {"ru": "ПОДЗАПРОС"}  # a mark in another script makes small models change the language
SUB_QUESTION_MARK = "Sub-question"  # used for all other languages
REJECTED = "The reader has seen and does not want these, so find other sides: {others}\n"
MAX_REJECTED = 12  # the prompt names the last rejected sub-questions


def make_plan_request(question: str, count: int) -> LLMRequest:
    """Return the request for the searches of a deep run."""
    return make_list_request(PROMPT.format(count=count, question=question), PLAN_MAX_TOKENS)


def make_sub_questions_request(question: str, language: str, count: int, rejected: Sequence[str]) -> LLMRequest:
    """Return the request for the sub-questions of a report. They must differ from the ones that the reader rejected."""
    prompt = REPORT_PROMPT.format(
        count=count,
        rejected=REJECTED.format(others=" | ".join(map(one_line, rejected[-MAX_REJECTED:]))) if rejected else "",
        language=get_language_name(language),
        mark=SUB_QUESTION_MARKS.get(get_primary_subtag(language), SUB_QUESTION_MARK),
        question=one_line(question),
    )
    return make_list_request(prompt, PLAN_MAX_TOKENS)


def parse_questions(text: str, question: str, language: str) -> list[str]:
    """Return the questions in the answer of a model, whatever its format.

    A plain line (`Sure, here they are:`) counts only if it shares a content word with the question.
    """
    listed = read_strings(text, plain=False)
    return listed or [line for line in read_strings(text) if shares_content_word(line, question, language)]
