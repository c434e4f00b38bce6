"""Web pages of all kinds: which text is kept, and how much."""

import pytest

from modules.llm_platform.infrastructure.parsing import article
from modules.llm_platform.infrastructure.parsing.html_page import read_html, read_page
from modules.llm_platform.infrastructure.parsing.limits import OutOfTimeError
from modules.llm_platform.infrastructure.parsing.nodes import render_plain_text

WORDS = "the river carries gravel from the hills to the harbour and dredgers clear the channel in every second summer"
SENTENCES = [f"In the year {year}, {WORDS} so that ships of {year % 97} metres can pass." for year in range(1900, 1912)]
PARAGRAPHS = "".join(f"<p>{sentence}</p>" for sentence in SENTENCES)
MENU = "<nav><a href=/a>Home menu</a> <a href=/b>Shop menu</a></nav>"
FOOTER = "<footer><p>All rights reserved by the owner of this site.</p></footer>"


def page(body: str, head: str = "") -> str:
    return f"<!doctype html><html><head><title>A page</title>{head}</head><body>{MENU}{body}{FOOTER}</body></html>"


ARTICLE = page(
    f"<article><h1>Dredging</h1>{PARAGRAPHS}</article><div class=related-posts><p>Read about bridges too.</p></div>"
)
DOCUMENTATION = page(
    f"<main><h1>dredge(1)</h1>{PARAGRAPHS[:600]}<dl><dt>--deep</dt><dd>Dig deeper.</dd></dl><pre>dredge --deep</pre></main>"
)
FORUM = page(
    "<main><h1>How deep is the channel?</h1>"
    + "".join(f"<div class=post><b>user{at}</b><p>{sentence}</p></div>" for at, sentence in enumerate(SENTENCES))
    + "</main>"
)
LISTING = page(
    "<main><h1>Harbours</h1><ul>"
    + "".join(f"<li><a href=/h{n}>Harbour number {n}</a></li>" for n in range(60))
    + "</ul></main>"
)
COLLECTION = page(
    "<main><h1>Boats</h1>"
    + "".join(f"<div class=card><h3>Boat {n}</h3><span>{n},000 euros</span></div>" for n in range(1, 40))
    + "</main>"
)
PRODUCT = page(
    "<main><h1>Boat 7</h1><p>Length 12 metres.</p><p>Price 70,000 euros.</p>"
    "<ul><li>Two masts</li><li>Four berths</li></ul></main>"
)
SERVICE = page(
    "<main><h1>We dredge</h1><section><h2>Rivers</h2><p>From one day.</p></section>"
    "<section><h2>Ports</h2><p>From a week.</p></section></main>"
)


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        pytest.param(ARTICLE, ["# Dredging", SENTENCES[0], SENTENCES[-1]], id="article"),
        pytest.param(
            DOCUMENTATION, [SENTENCES[0], "--deep\n: Dig deeper.", "```\ndredge --deep\n```"], id="documentation"
        ),
        pytest.param(FORUM, [SENTENCES[0], SENTENCES[6], SENTENCES[-1]], id="forum"),
        pytest.param(LISTING, ["Harbour number 0", "Harbour number 59"], id="listing"),
        pytest.param(COLLECTION, ["Boat 1", "39,000 euros"], id="collection"),
        pytest.param(PRODUCT, ["Length 12 metres.", "Price 70,000 euros.", "Four berths"], id="product"),
        pytest.param(SERVICE, ["## Rivers", "From one day.", "From a week."], id="service"),
    ],
)
def test_the_content_of_each_kind_of_page_is_kept_without_its_menus(html: str, kept: list[str]) -> None:
    """A page of each kind keeps its content and loses the menu and the footer."""
    text = read_page(html)["text"]
    assert [piece for piece in kept if piece not in text] == []
    assert "Home menu" not in text
    assert "All rights reserved" not in text
    assert "Read about bridges" not in text


def test_a_page_that_consists_of_surrounding_text_is_read_whole() -> None:
    """A page with 200 visible words is never empty, even if all of them are in a menu or in `noscript`."""
    for tag in ("nav", "aside", "noscript", "footer"):
        text = read_page(f"<html><body><{tag}>{PARAGRAPHS}</{tag}></body></html>")["text"]
        assert SENTENCES[0] in text, tag


def test_a_page_whose_article_takes_too_long_keeps_its_visible_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for the article that is given up falls back to the visible text."""

    def takes_too_long(*_: object, **__: object) -> str:
        raise OutOfTimeError

    monkeypatch.setattr(article, "_extract_content", takes_too_long)
    answer = read_page(ARTICLE)
    assert SENTENCES[0] in answer["text"]
    assert SENTENCES[-1] in answer["text"]


SURROUNDINGS = {
    "share links": "<div class=share-buttons>SURROUNDING: share this story with your friends.</div>",
    "newsletter": "<section id=newsletter-form><p>SURROUNDING: read our newsletter each morning.</p></section>",
    "a list of links": "<ul><li><a href=/a>SURROUNDING story</a></li><li><a href=/b>Another story</a></li></ul>",
    "a caption": "<figure><img src=a.png><figcaption>SURROUNDING, seen from above.</figcaption></figure>",
    "text between paragraphs": "<div><span>SURROUNDING 5 min read</span></div>",
    "comments of readers": "<div class=comments><p>SURROUNDING: I have been there.</p></div>",
}


@pytest.mark.parametrize("surrounding", [pytest.param(html, id=name) for name, html in SURROUNDINGS.items()])
def test_parts_are_removed_by_their_names_and_links(surrounding: str) -> None:
    """Inside the marked article, parts are removed by their names, links or elements."""
    text = read_page(page(f"<article><h1>Dredging</h1>{PARAGRAPHS}{surrounding}</article>"))["text"]
    assert SENTENCES[-1] in text
    assert "SURROUNDING" not in text


def test_names_that_fit_the_whole_content_remove_nothing() -> None:
    """Where the names would leave less than a seventh of a part, they name the content itself."""
    text = read_page(page(f"<article><div class=elementor-widget>{PARAGRAPHS}</div></article>"))["text"]
    assert SENTENCES[0] in text
    assert SENTENCES[-1] in text


def test_the_share_of_the_visible_text_is_returned() -> None:
    """`extraction` is the fraction of visible text that was kept: 1 for a simple page, and less with teasers."""
    assert read_page(f"<html><body><main>{PARAGRAPHS}</main></body></html>")["extraction"] == 1
    teasers = "<aside>" + "<p>Another teaser of another story.</p>" * 400 + "</aside>"
    assert 0.05 < read_page(page(f"<article>{PARAGRAPHS}</article>{teasers}"))["extraction"] < 0.25
    assert "extraction" not in read_html(ARTICLE)


def test_a_comment_names_its_author() -> None:
    """Readers' comments are marked in the stored text, with the author's name if the page has it, and keep their words."""
    said = f"I sailed there: {WORDS}, as I saw."
    html = page(
        f'<main>{PARAGRAPHS}<ol><li class="comment"><cite>Ada  Kai</cite><p>{said}</p></li>'
        f'<li class="comment"><p>{said.replace("there", "home")}</p></li></ol></main>'
    )
    text = read_page(html)["text"]
    assert "Comment by Ada Kai:" in text[: text.index(said)]
    assert "Comment:" in text[text.index(said) :]
    post = page('<main><h1>Boats</h1><div class="comment"><span class=author>Ada Kai</span><p>Mine leaks.</p></div>'
                '<div class="comment"><p>Mine too.</p></div></main>')  # fmt: skip
    text = read_page(post)["text"]
    assert "Comment by Ada Kai:" in text.split("Mine leaks.")[0]
    assert "Comment:" in text.split("Mine leaks.")[1].split("Mine too.")[0]


def test_what_a_script_or_a_click_shows_is_read() -> None:
    """Parts that React streams, panels of accordions and tabs, and a main part that fades in are no hidden text."""
    button = "<button aria-expanded=false aria-controls=p1>Costs</button>"
    panel = button + '<div style="display:none"><div id=p1>Ten euros.</div></div>'
    tab = "<a role=tab aria-controls=p2>Days</a><div id=p2 hidden>Two days.</div>"
    text = read_page(
        page(f'<main style="opacity: 0"><p>Seen.</p>{panel}{tab}<div hidden id="S:0"><p>Streamed.</p></div></main>')
    )["text"]
    assert all(piece in text for piece in ("Seen.", "Ten euros.", "Two days.", "Streamed."))


@pytest.mark.parametrize(
    "hidden",
    [
        "<div id=p1 hidden>Unseen.</div>",
        "<button aria-expanded=false aria-controls=p1></button><div id=p1 hidden>Unseen.</div>",
        "<span aria-controls=p1>Open</span><div id=p1 style='display:none'>Unseen.</div>",
        "<main hidden id=x>Unseen.</main>",
    ],
)
def test_a_part_that_nothing_shows_stays_hidden(hidden: str) -> None:
    """A hidden part is read only if a visible button or tab opens it."""
    assert "Unseen" not in read_page(page(f"<main><p>Seen.</p></main>{hidden}"))["text"]


def test_a_repeated_line_is_kept_once() -> None:
    """Teasers and quoted posts repeat; code and rows of tables do not lose their repeats."""
    text = read_page(page(f"<main><p>Seen again and again here.</p>{'<p>Seen again and again here.</p>' * 3}"
                          "<pre>one two three four five\none two three four five</pre></main>"))["text"]  # fmt: skip
    assert text.count("Seen again and again here.") == 1
    assert text.count("one two three four five") == 2


def test_empty_paragraphs_leave_no_blank_lines() -> None:
    """A non-breaking space is a space, too."""
    text = read_html(page(f"<main>{PARAGRAPHS}<p>First.</p>{'<p>&nbsp;</p>' * 3000}<p>Second.</p></main>"))["text"]
    assert "First.\n\nSecond." in text


def test_a_definition_moves_to_its_term_over_empty_paragraphs() -> None:
    text = render_plain_text(f"<p>--deep</p>{'<p>&nbsp;</p>' * 3000}<p>: Dig deeper.</p>")
    assert text == "--deep\n: Dig deeper."
