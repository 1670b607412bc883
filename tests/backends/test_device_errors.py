"""Note [The error word]: errors that kernels report through memory, at once or at the next synchronisation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.external.template_calls import TemplateKernel
from tests._backends import Host, window


class Reporting(Host):
    """Takes elements at given places; a queue for each device, which is late where the backend is asynchronous."""

    name = "reporting"

    def __init__(self) -> None:
        super().__init__()
        self.queues: list[list[Any]] = [[], []]
        self.lock = threading.Lock()

    def device_count(self) -> int:
        return 2

    def synchronize(self, device: int = 0) -> None:
        with self.lock:
            while self.queues[device]:
                function, arguments = self.queues[device].pop(0)
                function(*arguments)

    def gather(self, dtype: np.dtype) -> Any:
        def work(out: Any, x: Any, index: Any, error: Any, code: int) -> None:
            places = window(index)
            good = (places >= 0) & (places < x.shape[1])
            if not good.all():
                window(error)[0] = code
            window(out)[...] = np.take_along_axis(window(x), np.where(good, places, 0), axis=1) * good

        def kernel(*arguments: Any) -> None:
            if self.asynchronous:
                self.queues[arguments[0].device.index].append((work, arguments))
            else:
                work(*arguments)

        return kernel


class Later(Reporting):
    name = "later"
    asynchronous = True


@pytest.fixture
def now() -> Iterator[Reporting]:
    backend = Reporting()
    with tk.backends.register(backend):
        yield backend


@pytest.fixture
def later() -> Iterator[Later]:
    backend = Later()
    with tk.backends.register(backend):
        yield backend


def take(backend: Reporting, places: list[int], device: int = 0, operator: str = "take") -> tk.Tensor:
    """Take elements of (10, 11, 12)."""
    where = f"{backend.name}:{device}"
    x = tk.asarray([10.0, 11.0, 12.0], device=where).array.window((1, 3, 1), (0, 4, 0), 0)
    index = tk.asarray(places, device=where).array.window((1, len(places), 1), (0, 8, 0), 0)
    out = backend.empty((1, len(places), 1), x.dtype, where)
    kernel = TemplateKernel(backend, "gather", operator, (x.dtype,), x.dtype)
    message = f"an index is out of range for an axis of size {x.shape[1]}."
    assert kernel.run_with_errors(operator, message, out.array, x, index)
    return out


ERROR = r"^\[take\] an index is out of range for an axis of size 3\.$"


def test_at_once(now: Reporting) -> None:
    for device in (0, 1):
        assert take(now, [2, 0], device).numpy().ravel().tolist() == [12.0, 10.0]
        for places in ([3], [-1], [0, 7, 1]):
            with pytest.raises(IndexError, match=ERROR):
                take(now, places, device)
            assert take(now, [1], device).item() == 11.0  # the word is zero again


def test_at_the_next_synchronisation(later: Later) -> None:
    good = take(later, [1], device=1)
    bad = take(later, [3, 2])
    assert good.numpy().ravel().tolist() == [11.0]  # on another device
    with pytest.raises(IndexError, match=ERROR):
        bad.numpy()
    assert bad.numpy().ravel().tolist() == [0.0, 12.0]  # reported once
    take(later, [3], operator="index")
    x = tk.zeros(3, device="later")
    with pytest.raises(IndexError, match=r"^\[index\] an index"):
        tk.exp(x)  # copies to the host, because it falls back
    assert tk.exp(x).tolist() == [1.0, 1.0, 1.0]
    take(later, [3], device=1)
    tk.backends.synchronize("later:0")
    for _ in range(2):
        with pytest.raises(IndexError, match=ERROR):
            tk.backends.synchronize("later:1")
        tk.backends.synchronize("later:1")
        take(later, [3], device=1)
    with pytest.raises(IndexError, match=ERROR):
        tk.backends.synchronize(take(later, [4], device=1).device)


def test_only_words_in_use_are_read(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    copy = Later.copy_to_host
    monkeypatch.setattr(Later, "copy_to_host", lambda self, b, a: (sizes.append(a.size), copy(self, b, a))[1])
    x = tk.zeros(4, device="later")
    x.tolist()
    take(later, [1])
    x.tolist()
    x.tolist()
    assert sizes == [16, 8, 16, 16]


def test_an_error_during_a_synchronisation_is_found_by_the_next(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    def synchronize(self: Later, device: int = 0) -> None:
        drain(self, device)
        monkeypatch.undo()
        take(later, [3])  # as another thread may do before the word is read

    drain = Later.synchronize
    take(later, [1])
    monkeypatch.setattr(Later, "synchronize", synchronize)
    tk.backends.synchronize("later")
    with pytest.raises(IndexError, match=ERROR):
        tk.backends.synchronize("later")


def test_a_synchronisation_that_fails_leaves_the_error(later: Later, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Later, device: int = 0) -> None:
        raise OSError("device lost")

    take(later, [3])
    monkeypatch.setattr(Later, "synchronize", fails)
    with pytest.raises(OSError, match="device lost"):
        tk.backends.synchronize("later")
    monkeypatch.undo()
    with pytest.raises(IndexError, match=ERROR):
        tk.backends.synchronize("later")


def test_threads_have_their_own_errors(now: Reporting) -> None:
    """A kernel of another thread may not raise its error here, nor take that of this thread away."""
    caught: dict[int, int] = {}
    start = threading.Barrier(4)

    def work(number: int) -> None:
        start.wait()
        for i in range(50):
            try:
                take(now, [3 if number % 2 else i % 3], device=number // 2)
            except IndexError:
                caught[number] = caught.get(number, 0) + 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught == {1: 50, 3: 50}
    del threads
    assert len(now.live) <= 2  # words are freed with their threads


def test_threads_share_the_word_of_an_asynchronous_device(later: Later) -> None:
    """Each error that was stored when all had synchronised has been raised, and none twice."""
    caught: list[str] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        for _ in range(30):
            start.wait()
            if number == 0:
                take(later, [3], device=1)
            start.wait()
            try:
                tk.backends.synchronize("later:1")
            except IndexError as error:
                caught.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(caught) == 30
    take(later, [1], device=1).numpy()


def test_codes(now: Reporting) -> None:
    first = now.error_code("take", "too large.")
    assert first == now.error_code("take", "too large.") > 0
    assert len({first, now.error_code("take", "too small."), now.error_code("put", "too large.")}) == 3
    assert now.error_code("take", "too large.", ValueError) != first
    for code, error, message in (
        (now.error_code("f", "negative.", ValueError), ValueError, r"^\[f\] negative\.$"),
        (99_999, RuntimeError, r"^\[reporting\] a kernel has stored the unknown error code 99999\.$"),
    ):
        word = now.error_word(1)
        assert (word.shape, word.dtype, word.device) == ((1,), np.int64, "reporting:1")
        assert window(word).tolist() == [0]
        window(word)[0] = code
        with pytest.raises(error, match=message):
            tk.backends.synchronize("reporting:1")
        tk.backends.synchronize("reporting:1")


def test_texts_are_not_kept_for_ever(now: Reporting) -> None:
    codes = [now.error_code("take", f"no place {i}.") for i in range(65_600)]
    window(now.error_word())[0] = codes[-1]
    with pytest.raises(IndexError, match=r"\[take\] no place 65599"):
        tk.backends.synchronize("reporting")
    window(now.error_word())[0] = codes[0]
    with pytest.raises(RuntimeError, match="unknown error code"):
        tk.backends.synchronize("reporting")
    assert now.error_code("take", "no place 0.") > codes[-1]  # a code never changes its meaning


@pytest.mark.parametrize("kind", [Reporting, Later])
def test_removed_and_registered_again(kind: type[Reporting]) -> None:
    backend = kind()
    for _ in range(2):
        with tk.backends.register(backend):
            with pytest.raises(IndexError, match=ERROR):
                take(backend, [3]).numpy()
            take(backend, [1]).numpy()
        assert backend.live == set()


def test_a_kernel_that_declines_reports_nothing(now: Reporting, monkeypatch: pytest.MonkeyPatch) -> None:
    def declines(*args: Any) -> None:
        raise NotImplementedError("odd strides")

    monkeypatch.setattr(now, "gather", lambda dtype: declines)
    x = tk.zeros((1, 1, 1), device="reporting").array
    assert not TemplateKernel(now, "gather", "take", (x.dtype,), x.dtype).run_with_errors("take", "no.", x, x, x)
