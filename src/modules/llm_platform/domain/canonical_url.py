"""Addresses: which may be shown as a source, and when two of them name the same page. Strings only, no look-ups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

MAX_URL_CHARS: Final = 4000  # longer ones are data, not addresses

# Nothing blank, invisible, half a character, or that ends an attribute or a Markdown link; no backslash, since parsers
# disagree about the host of `http://127.0.0.1\@example.org`.
_BAD = r"\s\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff<>\"\\"
_WEB_URL = re.compile(
    rf"https?://(?:[^{_BAD}/?#@]*@)?(\[[0-9a-fA-F:.]+\]|[^{_BAD}/?#@:\[\]]+)(?::[0-9]{{0,5}})?(?:[/?#][^{_BAD}]*)?",
    re.IGNORECASE,
)
# Most addresses are plain, and told so in a third of the time; what this admits, the pattern above admits too.
_PLAIN_URL = re.compile(r"https?://([A-Za-z0-9.-]+)(?:/[!#-;=?-\[\]-~]*)?")
_DOC_URL = re.compile(rf"doc:[^{_BAD}]+")
# Parameters that tell where a visitor came from and change nothing on the page.
_TRACKING = re.compile(
    r"(?:utm_\w+|ga_\w+|pk_\w+|mtm_\w+|hsa_\w+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|ysclid|twclid|ttclid"
    r"|igshid|igsh|li_fat_id|mc_cid|mc_eid|_ga|_gl|_hsenc|_hsmi|mkt_tok|oly_anon_id|oly_enc_id|vero_id|srsltid|spm|scid"
    r"|ref_src|ref_url|wt_mc|cmpid|rb_clickid|s_cid|_openstat)",
    re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def is_web_url(url: str) -> bool:
    """Whether this is an http or https address with a host and without white space or control characters."""
    return _web_url(url) is not None


def is_openable(url: str) -> bool:
    """Whether a source may bear this address: http, https, or `doc:` and a path, without white space."""
    return is_web_url(url) or (len(url) <= MAX_URL_CHARS and _DOC_URL.fullmatch(url) is not None)


def host_of(url: str) -> str:
    """The host of a web address in lower case, without user and port; empty when `is_web_url` says no."""
    match = _web_url(url)
    return match[1].lower().rstrip(".") if match else ""


def admits_host(host: str, domains: Sequence[str]) -> bool:
    """Whether a host belongs to one of the wanted domains, if there are any, and to none that begins with a minus.
    Subdomains belong to their domain.
    """
    wanted = [domain for domain in domains if not domain.startswith("-")]
    barred = [domain[1:] for domain in domains if domain.startswith("-")]
    return (not wanted or any(_within(host, domain) for domain in wanted)) and not any(
        _within(host, domain) for domain in barred
    )


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _web_url(url: str) -> re.Match[str] | None:
    """The match whose first group is the host."""
    if len(url) > MAX_URL_CHARS:
        return None
    return _PLAIN_URL.fullmatch(url) or _WEB_URL.fullmatch(url)


def canonical_url(url: str) -> str:
    """A key that is equal for addresses of the same page; to compare, not to open.

    Gone are: the difference between http and https, `www.`, a default port, the fragment (unless it is a route: `#/…`,
    `#!…`), tracking parameters, the order of the others, a trailing slash. Another scheme keeps its address as it is.
    """
    parts = _split(url.strip())
    if parts is None or parts.scheme not in _DEFAULT_PORTS or not parts.netloc:
        return url.strip()
    query = _clean_query(parts.query)
    route = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    return f"//{_host(parts)}{parts.path.rstrip('/')}{'?' + query if query else ''}{'#' + route if route else ''}"


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:  # unbalanced brackets, characters that turn into others under NFKC
        return None


def _host(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2].lower().removesuffix(_DEFAULT_PORTS[parts.scheme]).removesuffix(":")
    return host.rstrip(".").removeprefix("www.")


def _clean_query(query: str) -> str:
    if not query:
        return ""
    kept = [part for part in query.split("&") if part and not _TRACKING.fullmatch(part.partition("=")[0])]
    return "&".join(sorted(kept))
