"""A number with its noun, in messages to users."""


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return `1 page` or `2 pages`. A verb may follow the noun: `format_count(count, "page was read", "pages were read")`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
