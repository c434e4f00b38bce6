"""instructor returns answers as Pydantic models."""

from __future__ import annotations

import instructor
import openai
from checks import ANSWER, KEY, QUESTION, URL, check, main
from pydantic import BaseModel

MESSAGES = [{"role": "user", "content": QUESTION}]
sdk = openai.OpenAI(api_key=KEY, base_url=f"{URL}/v1", max_retries=0)


class Summary(BaseModel):
    answer: str


def ask(mode):
    client = instructor.from_openai(sdk, mode=mode)
    return client.chat.completions.create(
        model="research-shallow", messages=MESSAGES, response_model=Summary, max_retries=0
    )


@check("Mode.JSON_SCHEMA", "chat", "structure")
def schema():
    assert ANSWER in ask(instructor.Mode.JSON_SCHEMA).answer


@check("Mode.JSON", "structure")
def json_without_schema():
    assert ANSWER in ask(instructor.Mode.JSON).answer


@check("Mode.TOOLS, its default", "tools", "structure")
def tools():
    assert ANSWER in ask(instructor.Mode.TOOLS).answer


main()
