"""The settings that every test and the processes it starts have, unless the test says otherwise."""

from collections.abc import Mapping
from typing import Final

SETTINGS: Final[Mapping[str, str]] = {
    "READ_PAGES": "0",  # results are made up: their pages are read by the tests that say so
    "ANSWER_ENCODER": "off",  # its weights take two seconds of each process; tests of answers chosen by meaning turn it on
    "ANSWER_ENCODER_TIMEOUT_S": "120",  # whether a busy machine reads in five seconds is no law
}
