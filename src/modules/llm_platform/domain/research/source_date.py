"""The date of a source that may have two: the page states one, and the search engine another."""

from modules.llm_platform.domain.citations.show.styles import read_date_parts


def choose_source_date(of_page: str | None, of_result: str | None) -> str | None:
    """Return the date that the page states, or the date of the search result if the page states none.

    An engine may only know when it last saw the page. Its date is still preferred to a date of the page that is not in
    ISO 8601, such as `Tue, 05 Mar 2024`, because such a date can neither be compared nor cited.
    """
    return of_page if read_date_parts(of_page) else of_result or of_page
