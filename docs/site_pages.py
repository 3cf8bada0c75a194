"""Pages of the site that are no files of ``docs/``: the README and its neighbours, and the public names.

A hook of MkDocs. What stands at the top of the repository is shown as it is, with links to ``docs/`` shortened; the
reference has one entry for every public name, so that none can be forgotten.
"""

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    root = Path(config.config_file_path).parent
    for source, page in TOP.items():
        files.append(File.generated(config, page, content=_with_links_of_the_site((root / source).read_text("utf-8"))))
    files.append(File.generated(config, "reference.md", content=_reference(root / "src" / "certiforest")))
    return files


def _with_links_of_the_site(text: str) -> str:
    text = re.sub(r"""(\]\(|src=")docs/""", r"\1", text)
    for source, page in TOP.items():
        text = text.replace(f"]({source})", f"]({page})")
    return text


def _reference(package: Path) -> str:
    """List the public names; they are read from the source, so that the site needs none of the dependencies."""
    statements = ast.parse((package / "__init__.py").read_text("utf-8")).body
    (names,) = (
        ast.literal_eval(statement.value)
        for statement in statements
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__"
    )
    entries = "\n".join(f"::: certiforest.{name}\n" for name in names)
    return f"# Python reference\n\nEverything public, from its docstrings.\n\n{entries}"
