"""Pages of the site that are no Markdown of ``docs/``: the README and its neighbours, public names, notebooks.

A hook of MkDocs. What stands at the top of the repository is shown as it is, with links to ``docs/`` shortened; the
reference has one entry for every public name, so that none can be forgotten; notebooks are shown with their outputs.
"""

import ast
import base64
import html
import json
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
    for notebook in sorted((root / "docs" / "gallery").glob("*.ipynb")):
        for name, content in _notebook(notebook).items():
            files.append(File.generated(config, f"gallery/{name}", content=content))
    return files


def _notebook(path: Path) -> dict[str, str | bytes]:
    """Return a notebook as a page, and the pictures that it shows."""
    parts, pictures = [], {}
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            text = "".join(output.get("text", data.get("text/plain", ())))
            if "image/png" in data:
                name = f"{path.stem}_{number}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![Figure]({name})")
            elif "text/html" in data and "<pre>" not in "".join(data["text/html"]):
                parts.append("".join(data["text/html"]))
            else:
                parts.append(f'<pre class="output">{html.escape(text)}</pre>')
    return {f"{path.stem}.md": "\n\n".join(parts) + "\n", **pictures}


def on_page_markdown(markdown: str, **_: object) -> str:
    """Let links to notebooks lead to their pages."""
    return markdown.replace(".ipynb)", ".md)")


def on_page_content(content: str, **_: object) -> str:
    """Keep options whole where lines of code are folded: browsers break them after their hyphens."""
    return re.sub(
        r"(?s)<code.*?</code>",
        lambda code: re.sub(r"(?<![\w-])--[a-z][\w-]*", r'<span class="option">\g<0></span>', code[0]),
        content,
    )


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
    inherited = "training.estimator.RobustEstimator", "training.boosting.BoostingClassifier"
    entries = "\n".join(f"::: certiforest.{name}\n" for name in (*names, *inherited))
    return f"# Python reference\n\nEverything public, from its docstrings.\n\n{entries}"
