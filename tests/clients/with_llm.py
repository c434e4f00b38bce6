"""The `llm` command with models from extra-openai-models.yaml."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import ANSWER, KEY, QUESTION, URL, check, main

MODELS = f"""
- model_id: research
  model_name: research-shallow
  api_base: {URL}/v1
  api_key_name: platform
- model_id: research-responses
  model_name: research-shallow
  api_base: {URL}/v1
  api_key_name: platform
  responses: true
"""


def ask(*words):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "extra-openai-models.yaml").write_text(MODELS)
        Path(folder, "keys.json").write_text(f'{{"platform": "{KEY}"}}')
        command = [sys.executable, "-m", "llm", *words]
        env = {**os.environ, "LLM_USER_PATH": folder}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@check("streamed", "stream")
def streamed():
    assert ANSWER in ask("-m", "research", QUESTION)


@check("not streamed", "chat")
def plain():
    assert ANSWER in ask("-m", "research", "--no-stream", QUESTION)


@check("with a system prompt", "chat")
def system_prompt():
    assert ANSWER in ask("-m", "research", "--system", "Answer in one sentence.", QUESTION)


main()
