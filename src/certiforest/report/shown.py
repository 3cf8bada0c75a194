"""What shows itself: as text at a prompt, in notebooks, and as a page."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from certiforest.files import write_atomically
from certiforest.report.html import as_html
from certiforest.report.sections import Page
from certiforest.report.text import as_text


class Shown:
    """What shows itself as text, in notebooks, and as a page."""

    @property
    def page(self) -> Page:
        """What there is to show."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return as_text(self.page)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def report(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write one HTML page. Without ``replace``, a file that is there is kept and `FileExistsError` raised."""
        if Path(path).suffix.lower() != ".html":
            raise ValueError(f"Expected a path that ends in .html, got {str(path)!r}.")
        write_atomically(path, as_html(self.page), replace=replace)
