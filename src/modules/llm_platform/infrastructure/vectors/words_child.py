"""The program that weighs the words of passages beside the interpreter that stores them; run with `-m`, never imported.

Requests and answers are values of `marshal`, each behind its length: a list of texts in, a list of (indices, values) out.
It ends with its input, so that it does not outlive whoever started it.
"""

from __future__ import annotations

import signal
import sys

from modules.llm_platform.domain.bm25 import passage_words
from modules.llm_platform.infrastructure.vectors.frames import received, send


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses Ctrl-C means the one that started us
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    while (texts := received(asked)) is not None:
        send(answers, [(words.indices, words.values) for words in map(passage_words, texts)])


if __name__ == "__main__":
    main()
