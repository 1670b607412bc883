"""einops finds our backend by itself; ``einops.array_api`` needs the standard alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tenkey as tk

einops = pytest.importorskip("einops", minversion="0.8")

PATTERNS = ["b c h w -> b h w c", "b c (h h1) w -> (b h1) c h w", "b c h w -> w (b c h)", "... w -> w ..."]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_rearrange(pattern: str) -> None:
    from einops import array_api

    x = tk.random.normal((2, 3, 4, 5))
    sizes = {"h1": 2} if "h1" in pattern else {}
    want = einops.rearrange(x.numpy(), pattern, **sizes)
    for got in (einops.rearrange(x, pattern, **sizes), array_api.rearrange(x, pattern, **sizes)):
        assert type(got) is tk.Tensor
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("reduction", ["min", "max", "sum", "mean", "prod", "any", "all"])
def test_reduce(reduction: str) -> None:
    x = tk.random.normal((2, 3, 4), dtype=tk.float64)
    x = x > 0 if reduction in {"any", "all"} else x
    got = einops.reduce(x, "a b (c d) -> b d", reduction, d=2)
    assert type(got) is tk.Tensor
    np.testing.assert_allclose(got.numpy(), einops.reduce(x.numpy(), "a b (c d) -> b d", reduction, d=2))


def test_repeat_stack_pack_einsum() -> None:
    x = tk.random.normal((2, 3))
    a = x.numpy()
    shapes = []
    for library, value in ((einops, x), (einops, a)):
        packed, parts = library.pack([value, value[0]], "* b")
        one, two = library.unpack(packed, parts, "* b")
        shapes.append([
            library.repeat(value, "a b -> b (a r)", r=2), library.rearrange([value, value], "n a b -> a (n b)"),
            library.einsum(value, value, "i j, k j -> i k"), packed, one, two,
        ])  # fmt: skip
    for got, want in zip(*shapes, strict=True):
        assert type(got) is tk.Tensor
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    assert type(einops.asnumpy(x)) is np.ndarray
    assert einops.parse_shape(x, "a _") == {"a": 2}


def test_gradients_and_vmap() -> None:
    x = tk.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    einops.reduce(einops.rearrange(x, "a b -> (b a)") ** 2, "(a b) -> a", "sum", a=2)[0].backward()
    assert x.grad.tolist() == [[2, 0], [6, 0]]
    got = tk.transforms.vmap(lambda t: einops.rearrange(t, "(a b) -> b a", a=1))(x.detach())
    assert got.shape == (2, 2, 1)


def test_what_einops_refuses() -> None:
    with pytest.raises(NotImplementedError, match="non-floating"):
        einops.reduce(tk.ones((2, 2), dtype=tk.int32), "a b -> a", "mean")
    with pytest.raises(einops.EinopsError, match="Wrong shape"):
        einops.rearrange(tk.ones(3), "a b -> b a")


@pytest.mark.parametrize("imports", ["import einops, tenkey as tk", "import tenkey as tk, einops"])
def test_order_of_imports(imports: str) -> None:
    program = f"{imports}; print(type(einops.rearrange(tk.zeros((2, 3)), 'a b -> b a')).__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Tensor"]
