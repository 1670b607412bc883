from tenkey.core.compiled.handles cimport Handle
