"""The one tolerant reader of what language models answer, for all stages.

It never raises, takes linear time and gives only what is whole: what the words mean is the stage's affair.
"""

from modules.llm_platform.application.research.decoding.cleaning import strip_reasoning
from modules.llm_platform.application.research.decoding.items import read_line, read_strings
from modules.llm_platform.application.research.decoding.numbers import read_number
from modules.llm_platform.application.research.decoding.rows import Row, read_rows

__all__ = ["Row", "read_line", "read_number", "read_rows", "read_strings", "strip_reasoning"]
