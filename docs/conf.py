"""Build the documentation site: the pages of this folder, and an API reference from the docstrings.

    sphinx-build -W -b html docs docs/_build/html

The page of a module documents the names in its ``__all__``, with the signatures of the type stubs. The build does not
use the network.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sphinx.domains.python import PythonDomain  # noqa: E402

import tenkey  # noqa: E402
from tools import make_stubs  # noqa: E402
from tools.check_reference import MODULES  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "tenkey"
author = "The tenkey developers"
copyright = "The tenkey developers"
release = version = tenkey.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
root_doc = "index"
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "sidebar_width": "260px"}
html_copy_source = False
nitpicky = False

myst_heading_anchors = 3
# Pages link to files of the repository that are not part of the site.
suppress_warnings = ["myst.xref_missing"]

autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
add_module_names = False
python_maximum_signature_line_length = 88

_PAGE: Final = """{title}
{line}

.. automodule:: {module}
   :members: {members}
   :undoc-members:
   :show-inheritance:
   :exclude-members: {names}

{data}
"""
_MEMBERS: Final = {"tenkey.numpy": "ndarray, operators_only, poly1d, ufunc, vectorize"}
"""The members of a module that its page shows, for modules that do not show all: NumPy documents its own names."""
_DATUM: Final = """.. py:data:: {name}
   :module: {module}
   :type: {kind}
{value}
"""


def find_modules() -> list[str]:
    """Return the modules that have a page: those of the API, and the modules in their ``__all__``."""
    found = list(MODULES)
    for name in MODULES:
        module = importlib.import_module(name)
        for member in sorted(module.__all__):
            value, path = getattr(module, member), f"{name}.{member}"
            if inspect.ismodule(value) and path not in found:
                sys.modules.setdefault(path, value)  # tk.library.scalar, for example, is defined in tenkey.ops
                found.append(path)
    return found


def write_pages(folder: Path) -> None:
    """Write a page for each module of the API, and their index."""
    folder.mkdir(exist_ok=True)
    pages = find_modules()
    for module in pages:
        data = _data_of(module) if module not in _MEMBERS else {}
        entries = "\n".join(_datum(module, name, value) for name, value in data.items())
        names = ", ".join(data) or "__none__"
        page = _PAGE.format(
            title=module,
            line="=" * len(module),
            module=module,
            names=names,
            data=entries,
            members=_MEMBERS.get(module, ""),
        )
        _write(folder / f"{module}.rst", page)
    listed = "\n".join(f"   {module}" for module in pages)
    _write(folder / "index.rst", f"API reference\n=============\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n")


def _data_of(module: str) -> dict[str, object]:
    """Return the public values that are not modules, classes or functions; autodoc skips imported ones."""
    found = {name: getattr(sys.modules[module], name) for name in sys.modules[module].__all__}
    return {
        name: value
        for name, value in sorted(found.items())
        if not (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value))
    }


def _datum(module: str, name: str, value: object) -> str:
    shown = repr(value)
    line = "" if " at 0x" in shown or len(shown) > 60 else f"   :value: {shown}\n"
    return _DATUM.format(name=name, module=module, kind=type(value).__name__, value=line)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:  # Sphinx does not rebuild unchanged pages
        path.write_text(text, encoding="utf-8")


def _typed_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str | None, str | None] | None:
    """Return the signature of an operator with the types of its stub."""
    operator = getattr(obj, "operator", None) if inspect.isroutine(obj) else None
    if operator is None:
        return None
    parameters, returned = make_stubs.operator_signature(operator, method=what == "method")
    shown = parameters[1:] if what == "method" else parameters
    return f"({', '.join(shown)})", returned


class _Domain(PythonDomain):
    """Python names, several of which may denote one object, such as ``tk.no_grad`` and ``tk.autograd.no_grad``."""

    def note_object(
        self, name: str, objtype: str, node_id: str, aliased: bool = False, location: Any = None
    ) -> None:  # fmt: skip
        """Record a name; an alias does not replace the definition."""
        if not (aliased and name in self.objects):
            super().note_object(name, objtype, node_id, aliased, location)

    def find_obj(self, *args: Any, **kwargs: Any) -> list[tuple[str, Any]]:
        """Return the shortest of the names that a reference may denote."""
        return sorted(super().find_obj(*args, **kwargs), key=lambda found: len(found[0]))[:1]


def setup(app: Sphinx) -> None:
    """Set up the extension; called by Sphinx."""
    app.add_domain(_Domain, override=True)
    app.connect("autodoc-process-signature", _typed_signature)
    write_pages(Path(app.srcdir) / "_api")
