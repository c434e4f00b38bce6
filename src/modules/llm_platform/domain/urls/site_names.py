"""The sites that a search is restricted to, as people and models write them: one parser for every interface.

It is lenient about the form: upper case, a scheme, a path, a port, `*.edu`, `.gov`, `site:nasa.gov`, a trailing dot, names in
any script, and a list that is one string. What names no site is refused with a message that does not repeat it.
"""

import re
from typing import Any, Final

from pydantic_core import from_json

MAX_SITES: Final = 300  # the limit of Tavily's API
MAX_NAME_CHARS: Final = 253  # RFC 1035, without the final dot
MAX_WRITTEN_CHARS: Final = 2000  # longest name with its scheme and path
MAX_WRITTEN_LIST_CHARS: Final = 100_000  # longest list that is one string
NO_SITE: Final = "must be the name of a site such as python.org, a domain such as edu, or a host such as wiki"
NO_WILDCARD: Final = "must be the name of a site: an asterisk is allowed in front of it alone, as in *.edu"
NO_MINUS: Final = (
    "must be the name of a site such as python.org without a minus: this field says whether sites are left out"
)
TOO_LONG: Final = f"must have at most {MAX_WRITTEN_LIST_CHARS} characters: send fewer sites"

_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_FORM: Final = re.compile(
    r"(?P<minus>-?)(?:site:)?(?:https?://|//)?(?:\*?\.)?(?P<host>[^\s/?#:@\\]*)(?::[0-9]{1,5})?(?:[/?#]\S*)?",
    re.IGNORECASE,
)
_BETWEEN: Final = re.compile(r"[\s,;，；、]+")


def parse_site(written: str) -> str:
    """Return the name in lower case and ASCII, with a leading minus if the site is left out.

    A path, a port and `www.` are dropped: the whole site is meant. Raises ValueError.
    """
    form = _FORM.fullmatch(written.strip()) if len(written) <= MAX_WRITTEN_CHARS else None
    if form is None:
        raise ValueError(NO_SITE)
    if "*" in form["host"]:
        raise ValueError(NO_WILDCARD)
    name = ascii_host(form["host"]).removesuffix(".")
    if len(name) > MAX_NAME_CHARS or not all(map(_LABEL.fullmatch, name.split("."))):
        raise ValueError(NO_SITE)
    site = name.removeprefix("www.")
    return f"{form['minus']}{site if '.' in site else name}"


def parse_unsigned_site(written: str) -> str:
    """Return the name of a site in a field that says by its own name whether sites are left out. Raises ValueError."""
    name = parse_site(written)
    if name.startswith("-"):
        raise ValueError(NO_MINUS)
    return name


def split_sites(value: Any) -> Any:
    """Return the written names of a list without the blank ones, or of a string: JSON, or names between commas or spaces.

    A value of another type is returned as it is. Raises ValueError.
    """
    if isinstance(value, str):
        if len(value) > MAX_WRITTEN_LIST_CHARS:
            raise ValueError(TOO_LONG)
        listed = _json_list(value)
        return split_sites(_BETWEEN.split(value) if listed is None else listed)
    if not isinstance(value, list | tuple):
        return value
    return [site for site in value if not isinstance(site, str) or site.strip()]


def ascii_host(host: str) -> str:
    """Return a host in lower case, its labels of other scripts in Punycode. Raises ValueError for what cannot be a name."""
    if host.isascii():
        return host.lower()
    if len(host) > MAX_NAME_CHARS:  # encoding does not shorten it, and takes the square of the length
        raise ValueError(NO_SITE)
    # A dependency of yarl and httpx2; imported here, since its tables take some milliseconds of every start.
    import idna

    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except UnicodeError:
        raise ValueError(NO_SITE) from None


def _json_list(text: str) -> list[Any] | None:
    if not text.lstrip().startswith("["):
        return None
    try:
        found = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return found if isinstance(found, list) else None
