"""Starts `child.py`, as a script: `python -P parsing/__main__.py CPU_SECONDS WALL_SECONDS`.

The child starts with each broken document, and must start fast. So it imports the files of this folder and nothing else of
this package: of the packages around the folder there are empty modules here, in which nothing can be found.
"""

import os
import sys
from importlib import import_module
from types import ModuleType

PACKAGE = "modules.llm_platform.infrastructure.parsing"


def import_child() -> ModuleType:
    names = PACKAGE.split(".")
    for count in range(1, len(names) + 1):
        package = sys.modules[".".join(names[:count])] = ModuleType(names[count - 1])
        package.__path__ = []
    package.__path__ = [os.path.dirname(__file__)]  # noqa: PTH120  importing pathlib takes longer
    return import_module(f"{PACKAGE}.child")


if __name__ == "__main__":
    import_child().main()
