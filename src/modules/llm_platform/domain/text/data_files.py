"""Word lists and messages by language: JSON files, each read once, when it is first needed."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from modules.llm_platform.domain.text import data


@cache
def load_data(name: str) -> Any:
    """Return the content of `<name>.json` in the folder `data`. Callers share it and must not change it."""
    return json.loads(files(data).joinpath(f"{name}.json").read_text(encoding="utf-8"))


@cache
def load_words(name: str, part: str) -> frozenset[str]:
    """Return the words of one part of `<name>.json`."""
    return frozenset(load_data(name)[part].split())


@cache
def load_word_groups(name: str, part: str) -> tuple[frozenset[str], ...]:
    """Return the words of each group in one part of `<name>.json`, in the order of the file."""
    return tuple(frozenset(words.split()) for words in load_data(name)[part])
