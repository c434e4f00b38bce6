"""openapi-python-client accepts the OpenAPI document and generates a client for every operation."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from checks import ANSWER, KEY, QUESTION, URL, check, main
from openapi_spec_validator import OpenAPIV31SpecValidator

FOLDER = Path(tempfile.mkdtemp(prefix="openapi-client-"))
PACKAGE = "generated_client"


def document():
    request = urllib.request.Request(f"{URL}/openapi.json", headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def operation_ids():
    return [operation["operationId"] for methods in document()["paths"].values() for operation in methods.values()]


@check("the document is valid")
def valid():
    assert not [error.message for error in OpenAPIV31SpecValidator(document()).iter_errors()]
    names = operation_ids()
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]{2,60}", name) for name in names), names


@check("all operations")
def all_operations():
    file = FOLDER / "openapi.json"
    file.write_text(json.dumps(document()))
    command = ["generate", "--path", str(file), "--meta", "none", "--output-path", str(FOLDER / PACKAGE), "--overwrite"]
    ended = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", *command], capture_output=True, text=True, check=False
    )
    made = {path.stem for path in (FOLDER / PACKAGE / "api").glob("*/*.py")}
    missing = set(operation_ids()) - made
    assert not missing, (missing, ended.stdout[-2000:], ended.stderr[-2000:])


@check("search with the generated client", "search")
def searched():
    sys.path.insert(0, str(FOLDER))
    package = importlib.import_module(PACKAGE)
    search = importlib.import_module(f"{PACKAGE}.api.search.post_llm_platform_web_search")
    models = importlib.import_module(f"{PACKAGE}.models")
    client = package.AuthenticatedClient(base_url=URL, token=KEY)
    answer = search.sync(client=client, body=models.WebSearchApiRequest(query=QUESTION))
    assert ANSWER in answer.results[0].snippet


main()
