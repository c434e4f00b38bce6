"""Validate the URLs of sources, and compare two of them. Strings only, no look-ups."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote_plus, urlsplit

from modules.llm_platform.domain.text.lazy_pattern import lazy_pattern
from modules.llm_platform.domain.urls.site_names import ascii_host

MAX_URL_CHARS: Final = 4000
MAX_OPERATORS: Final = 20  # operators of one query

# Blank, invisible or surrogate characters, and those that end an attribute or a Markdown link; the backslash, since parsers
# disagree about the host of `http://127.0.0.1\@example.org`.
_BAD = r"\s\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff<>\"\\"
_WEB_URL = lazy_pattern(
    rf"https?://(?:[^{_BAD}/?#@]*@)?(\[[0-9a-fA-F:.]+\]|[^{_BAD}/?#@:\[\]]+)(?::[0-9]{{0,5}})?(?:[/?#][^{_BAD}]*)?",
    re.IGNORECASE,
)
# A faster pattern for plain URLs; the one above matches all of them too.
_PLAIN_URL = re.compile(r"https?://([A-Za-z0-9.-]+)(?:/[!#-;=?-\[\]-~]*)?")
_DOC_URL = re.compile(rf"doc:[^{_BAD}]+")
# Parameters that do not change the page.
_TRACKING = re.compile(
    r"(?:utm_\w+|ga_\w+|pk_\w+|mtm_\w+|hsa_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|ysclid|twclid|ttclid"
    r"|igshid|igsh|li_fat_id|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|mkt_tok|oly_anon_id|oly_enc_id|vero_id|srsltid|spm|scid"
    r"|ref_src|ref_url|wt_mc|cmpid|rb_clickid|s_cid|_openstat)",
    re.IGNORECASE,
)
MAX_FRAGMENT_WORDS: Final = 12  # a shorter quote is named whole, a longer one by its ends
FRAGMENT_END_WORDS: Final = 4
_MARKUP = re.compile(r"[*_`#~]+|^[\s>•:-]+", re.MULTILINE)  # our text has it, the page does not
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_web_url(url: str) -> bool:
    """Return whether this is an http or https URL with a host and without white space or control characters."""
    return _web_url(url) is not None


def is_openable(url: str) -> bool:
    """Return whether a source may have this URL: http, https, or `doc:` and a path, without white space."""
    return _web_url(url) is not None or (len(url) <= MAX_URL_CHARS and _DOC_URL.fullmatch(url) is not None)


def get_host(url: str) -> str:
    """Return the host of a web URL in lower case, without user and port; empty for any other string."""
    match = _web_url(url)
    return match[1].lower().rstrip(".") if match else ""


def remove_userinfo(url: str) -> str:
    """Return the web URL without `user:password@`, which is no part of where a page is; any other string unchanged."""
    scheme, separator, rest = url.partition("://")
    if not separator or "@" not in rest or not is_web_url(url):
        return url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{authority.rpartition('@')[2]}{rest[len(authority) :]}"


def split_domains(domains: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the included domains and, without their leading minus, the excluded ones."""
    return [domain for domain in domains if not domain.startswith("-")], [
        domain[1:] for domain in domains if domain.startswith("-")
    ]


def admits_host(host: str, domains: Sequence[str]) -> bool:
    """Return whether a host belongs to one of the included domains, if there are any, and to no excluded one.

    Subdomains belong to their domain. Domains are in ASCII, as `site_names` returns them.
    """
    with suppress(ValueError):
        host = ascii_host(host)
    included, excluded = split_domains(domains)
    is_included = not included or any(_is_within(host, domain) for domain in included)
    return is_included and not any(_is_within(host, domain) for domain in excluded)


def site_operators(domains: Sequence[str], *, parentheses: bool = False) -> str:
    """Return the domains as operators of a search engine: `site:a.org OR site:b.org -site:c.org`.

    More than MAX_OPERATORS, which engines cut or refuse, are left to the filter of the results: empty then.
    """
    if len(domains) > MAX_OPERATORS:
        return ""
    included, excluded = split_domains(domains)
    sites = " OR ".join(f"site:{domain}" for domain in included)
    if parentheses and len(included) > 1:
        sites = f"({sites})"
    return " ".join(filter(None, (sites, *(f"-site:{domain}" for domain in excluded))))


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _web_url(url: str) -> re.Match[str] | None:
    """Return the match whose first group is the host."""
    if len(url) > MAX_URL_CHARS:
        return None
    return _PLAIN_URL.fullmatch(url) or _WEB_URL.fullmatch(url)


def canonical_url(url: str) -> str:
    """Return a key that is equal for URLs of the same page. It is for comparison, and cannot be opened.

    It ignores http or https, `www.`, a default port, the fragment (unless it is a route: `#/…`, `#!…`), tracking parameters,
    the order of the others, and a trailing slash. A URL of another scheme is returned unchanged.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
    except ValueError:  # unbalanced brackets, characters that turn into others under NFKC
        return url
    if parts.scheme not in _DEFAULT_PORTS or not parts.netloc:
        return url
    kept = [part for part in parts.query.split("&") if part and not _TRACKING.fullmatch(part.partition("=")[0])]
    query = "&".join(sorted(kept))
    route = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS[parts.scheme]).removesuffix(":")
    host = host.rstrip(".").removeprefix("www.")
    return f"//{host}{parts.path.rstrip('/')}{'?' + query if query else ''}{'#' + route if route else ''}"


def quote_url(url: str, quote: str, page: int | None = None) -> str | None:
    """Return an address with a text fragment, at which a browser scrolls to the quote; None without words or a web URL.

    With the `page` of a PDF, the address names that page (RFC 8118), because viewers of PDFs know no text fragments.

    See https://wicg.github.io/scroll-to-text-fragment/. A quote of several lines is named by its first line, because other
    lines are other elements of the page. So are the cells of a table row, which is named by its first and last cell.
    """
    lines = (
        [cell for part in line.split("|") if (cell := part.split())] for line in _MARKUP.sub(" ", quote).splitlines()
    )
    cells = next((line for line in lines if line), [])
    if not cells or not is_web_url(url):
        return None
    if page is not None:
        return page_url(url, page)
    first, last = cells[0], cells[-1]
    is_one = len(cells) == 1 and len(first) <= MAX_FRAGMENT_WORDS
    ends = [first] if is_one else [first[:FRAGMENT_END_WORDS], last[-FRAGMENT_END_WORDS:]]
    named = ",".join(_fragment_part(" ".join(end)) for end in ends)
    return f"{url}{'' if '#' in url else '#'}:~:text={named}"


def page_url(url: str, page: int | None) -> str:
    """Return the address at a page of a PDF (RFC 8118); without a page, or for what is not on the web, as it is."""
    return f"{url.partition('#')[0]}#page={page}" if page is not None and is_web_url(url) else url


def _fragment_part(words: str) -> str:
    """Return the words percent-encoded, including hyphens, which have a meaning in a text fragment."""
    return quote_plus(words.encode("utf-8", "replace"), safe="").replace("+", "%20").replace("-", "%2D")
