"""What the layers above plug into a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Hooks"]


class Hooks:
    """The functions and names that a registry gets from the layers above, which know tensors and devices.

    - ``converters``: by schema type (``"DType"``), the function that converts an argument;
    - ``lifters``: functions of an operator and its tensor arguments that make tensors of other values;
    - ``number``: makes a tensor of a Python number;
    - ``device_word``: the dispatch word of a device, or of the default device for None;
    - ``device_names``: the device string of each backend key; ``removed_devices``: those whose backend was removed;
    - ``derivers``: functions that derive the operator of a given name (``ns::name_``) from another one, or give None;
    - ``load_checks``: imports the function behind ``opcheck``, which uses every layer.
    """

    def __init__(self) -> None:
        self.converters: dict[str, Callable[[Any], Any]] = {}
        self.lifters: list[Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]] = []
        self.number: Callable[[Any], Any] | None = None
        self.device_word: Callable[[Any], int] = lambda device: 0
        self.device_names: dict[str, str] = {}
        self.removed_devices: set[str] = set()
        self.derivers: list[Callable[[str], Any]] = []
        self.load_checks: Callable[[], Callable[..., Any]]

    def device_name(self, backend: str) -> str:
        """Return the device string of a backend key."""
        return self.device_names.get(backend, backend.lower())
