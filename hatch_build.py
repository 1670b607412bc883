"""Build hook: compile the core of small calls (``tenkey/core/compiled``), or leave it out.

Cython translates each module to C, and setuptools compiles it, since it knows the compilers of all systems. CC, CFLAGS
and LDFLAGS are honoured. Nothing is written into the source tree, except that an editable installation gets the
extension files next to their sources. If anything fails, the wheel is a pure one, in which the same calls run in
Python, and one line on standard error says why. ``TENKEY_EXTENSION=off`` compiles nothing; with
``TENKEY_EXTENSION=on``, a failure is an error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = ["CompiledCoreHook"]

_PLACE: Final = Path("tenkey", "core", "compiled")
_SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")
_AT_ONCE: Final = 2  # compilers, which take 0.5 GB each
# No fused operations: results are NumPy's. No automatic vectorization, which costs more than it brings for a few axes.
# What CFLAGS says replaces the flags that Python was compiled with
_FLAGS: Final = (
    "-O3", "-fno-tree-vectorize", "-fwrapv", "-fno-strict-aliasing", "-ffp-contract=off", "-g0", "-DNDEBUG",
)  # fmt: skip
_MACROS: Final = [("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION")]
# Cython lists binary operators of numbers as methods too, with METH_COEXIST. A class in Python that inherits such a
# method gets a slot that looks the method up at each call; without it, the class inherits the slot of C. Guarded by
# tests/package/test_compiled_core.py
_OPERATORS: Final = "add|sub|mul|matmul|truediv|floordiv|mod|divmod|lshift|rshift|and|xor|or"
_METHOD_OF_SLOT: Final = re.compile(rf'^\s*\{{"__r?(?:{_OPERATORS})__",.*\bMETH_COEXIST\b.*\}},?\s*$', re.MULTILINE)


class CompiledCoreHook(BuildHookInterface):  # type: ignore[misc]  # hatchling need not be installed
    """Hooks that hatchling calls before and after it writes a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the extension files to the wheel, or to the source tree for an editable installation."""
        place = Path(self.root, _PLACE)
        if version == "editable":
            for file in place.glob(f"*{_SUFFIX}"):
                file.unlink()
        self._temporary = tempfile.TemporaryDirectory(prefix="tenkey-build-")
        try:
            files = _build(Path(self.root), Path(self._temporary.name))
        except Exception as error:
            if os.environ.get("TENKEY_EXTENSION") == "on":
                raise
            why = " ".join(str(error).split()) or type(error).__name__
            print(f"tenkey is installed without its compiled core, and runs in Python: {why}", file=sys.stderr)
            return
        for file in files:
            if version == "editable":
                shutil.copy(file, place)
            else:
                build_data["force_include"][str(file)] = (_PLACE / file.name).as_posix()
                build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the temporary folder."""
        self._temporary.cleanup()


def _build(root: Path, folder: Path) -> list[Path]:
    """Compile the modules in a temporary folder, and return the extension files."""
    if os.environ.get("TENKEY_EXTENSION") == "off":
        raise RuntimeError("TENKEY_EXTENSION=off")
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError("it is only for CPython with a global interpreter lock")
    import numpy as np
    from Cython.Build import cythonize
    from setuptools import Extension

    probe = folder / "probe.c"
    probe.write_text("#include <Python.h>\nPyMODINIT_FUNC PyInit_probe(void) { return NULL; }\n", encoding="utf-8")
    _compile([Extension("probe", [str(probe)])], folder)  # fails at once where nothing can be compiled
    sources = _load_sources(root)
    names, digest = sources.module_names(str(root / _PLACE)), sources.source_hash(str(root / _PLACE))
    unix = sysconfig.get_config_var("CC") is not None
    flags = [*_FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))] if unix else []  # the last of two flags counts
    extensions = [
        Extension(
            ".".join((*_PLACE.parts, name)),
            [str(_PLACE / f"{name}.py")],
            include_dirs=[np.get_include()],
            define_macros=_MACROS,
            extra_compile_args=flags,
        )
        for name in names
    ]
    with contextlib.chdir(root):  # tracebacks name files as seen from here
        translated = cythonize(extensions, build_dir=str(folder), language_level=3, quiet=True, force=True)
        for extension in translated:
            path = Path(extension.sources[0])
            text = _METHOD_OF_SLOT.sub("", path.read_text(encoding="utf-8"))
            path.write_text(f'#define TENKEY_SOURCE_HASH "{digest}"\n{text}', encoding="utf-8")
        return _compile(translated, folder)


def _load_sources(root: Path) -> Any:
    """Return ``tenkey/core/compiled/sources.py`` as a module; tenkey itself cannot be imported yet."""
    spec = importlib.util.spec_from_file_location("sources", root / _PLACE / "sources.py")
    if spec is None or spec.loader is None:
        raise ImportError("tenkey/core/compiled/sources.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(extensions: list[Any], folder: Path) -> list[Path]:
    """Compile C files to extension modules, and return the paths of these."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    command = build_ext(Distribution({"name": "tenkey", "ext_modules": extensions}))
    command.build_lib, command.build_temp, command.parallel = str(folder), str(folder), _AT_ONCE
    command.ensure_finalized()
    command.run()
    files = [Path(command.get_ext_fullpath(extension.name)) for extension in extensions]
    if missing := [file.name for file in files if not file.exists()]:
        raise RuntimeError(f"the C compiler reports success, but has not written {missing[0]}")
    return files
