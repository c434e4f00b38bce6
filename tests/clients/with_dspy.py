"""DSPy with its adapters. It sends `response_format` only to models on its own list, so research models get it here."""

from __future__ import annotations

import dspy
from checks import ANSWER, EMBEDDER, KEY, LLM, QUESTION, URL, check, main

JSON = {"response_format": {"type": "json_object"}}


def language_model(name, **fields):
    return dspy.LM(f"openai/{name}", api_base=f"{URL}/v1", api_key=KEY, cache=False, num_retries=0, **fields)


def today() -> str:
    """Return the date."""
    return ""


def predict(name, adapter, **fields):
    with dspy.context(lm=language_model(name, **fields), adapter=adapter):
        return dspy.Predict("question -> answer")(question=QUESTION).answer


@check("ChatAdapter, its default, with a passthrough model", "chat", "structure")
def chat_adapter():
    assert ANSWER in predict(LLM, dspy.ChatAdapter())


@check("JSONAdapter, and ChatAdapter which falls back to it, with response_format", "structure")
def json_adapter():
    for name in ("research-shallow", LLM):
        for adapter in (dspy.JSONAdapter(), dspy.ChatAdapter()):
            assert ANSWER in predict(name, adapter, **JSON)


@check("a history", "second turn")
def second_turn():
    class Ask(dspy.Signature):
        """Answer the question."""

        history: dspy.History = dspy.InputField()
        question: str = dspy.InputField()
        answer: str = dspy.OutputField()

    model = language_model("research-shallow", **JSON)
    history = dspy.History(messages=[{"question": QUESTION, "answer": "A library."}])
    with dspy.context(lm=model):
        assert ANSWER in dspy.Predict(Ask)(question=f"{QUESTION} Say it again.", history=history).answer


@check("ReAct with a tool", "tools")
def tools():
    with dspy.context(lm=language_model(LLM), adapter=dspy.ChatAdapter()):
        found = dspy.ReAct("question -> answer", tools=[today], max_iters=2)(question=QUESTION)
    assert ANSWER in found.answer
    assert "today" in found.trajectory.values()


@check("Embedder", "embeddings")
def embeddings():
    embed = dspy.Embedder(f"openai/{EMBEDDER}", api_base=f"{URL}/v1", api_key=KEY)
    assert embed([QUESTION, "What is tea?"]).shape == (2, 256)


main()
