from __future__ import annotations
import glob, importlib.util, os, sys, types
from typing import Any
def _load() -> Any:
    if os.environ.get("TENKEY_COMPILED") == "0":
        return None
    here = os.path.dirname(__file__)
    out = types.SimpleNamespace()
    import importlib.machinery
    for name in ("handles", "operations", "slots"):
        full = f"tenkey.core.compiled.{name}"
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            path = os.path.join(here, name + suffix)
            if os.path.exists(path):
                break
        else:
            return None
        if full in sys.modules:
            setattr(out, name, sys.modules[full]); continue
        spec = importlib.util.spec_from_file_location(full, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
        setattr(out, name, module)
    return out
extension: Any = _load()
reason = "" if extension else "off"
