"""The calls that start the engine: trees, edges, batches of gradients, refusals; what nodes say of themselves."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import backward, grad
from tenkey.autograd.graph import GradientEdge


def leaf(values: Any) -> Tensor:
    return tk.tensor(values, dtype=tk.float64, requires_grad=True)


def ones(*shape: int) -> Tensor:
    return tk.ones(shape, dtype=tk.float64)


class TestNodes:
    def test_what_a_node_says_of_itself(self) -> None:
        x = leaf([1.0, 2.0])
        node = (x * x).grad_fn
        assert isinstance(node, tk.autograd.graph.Node)
        assert node.name() == "MultiplyBackward"
        (meta,) = node._input_metadata
        assert (meta.shape, meta.dtype, str(meta.device)) == ((2,), tk.float64, "cpu")
        later = (x * x).grad_fn
        assert node._sequence_nr() < later._sequence_nr()
        accumulator, number = node.next_functions[0]
        assert (accumulator.name(), number, accumulator.variable) == ("AccumulateGrad", 0, x)
        assert accumulator._sequence_nr() > later._sequence_nr()
        assert node._saved_x1 is x
        summed = tk.ones((2, 3)).requires_grad_().sum(axis=1).grad_fn
        assert (summed._saved_axis, summed._saved_keepdims) == ((1,), False)
        node.metadata["mine"] = 1
        assert node.metadata == {"mine": 1}

    def test_every_thread_counts_its_nodes_by_itself(self) -> None:
        x = leaf([1.0, 2.0])
        here = (x * x).grad_fn
        found: list[int] = []
        results: list[Tensor] = []

        def record() -> None:
            made = x * 2.0
            results.append(made * x)
            found.extend([made.grad_fn.sequence_nr, results[0].grad_fn.sequence_nr])

        for _ in range(2):
            thread = threading.Thread(target=record)
            thread.start()
            thread.join()
            assert found == [0, 1]
            found.clear()
        assert (x * x).grad_fn.sequence_nr == here.sequence_nr + 1
        (results[0] * x + results[1]).sum().backward()  # 2 x^3 + 2 x^2, recorded in three threads
        assert x.grad.tolist() == [10.0, 32.0]
        results.clear()

    def test_meta_tensors_run_backward(self) -> None:
        x = tk.ones((2, 3), device="meta").requires_grad_()
        (tk.exp(x * 2.0) + x).sum().backward()
        assert x.grad is not None
        assert (x.grad.shape, str(x.grad.device)) == ((2, 3), "meta")


class TestCalls:
    def test_trees_in_trees_out(self) -> None:
        x, w = leaf([1.0, 2.0]), leaf(3.0)
        outputs = {"loss": (x * w).sum(), "rest": [(x * x).sum()]}
        found = grad(outputs, {"x": x, "more": (w, [x])}, retain_graph=True)
        assert found["x"].tolist() == [5.0, 7.0]
        assert found["more"][0].item() == 3.0
        assert isinstance(found["more"], tuple)
        assert isinstance(found["more"][1], list)
        mixed = grad(list(outputs.values()), [x, {"w": w}], retain_graph=True)
        assert isinstance(mixed, tuple)
        assert mixed[1]["w"].item() == 3.0
        assert isinstance(grad(outputs, [x, w], retain_graph=True), tuple)
        assert len(grad(outputs, x, retain_graph=True)) == 1
        (weighted,) = grad(outputs, x, {"loss": ones() * 2.0, "rest": [ones()]}, retain_graph=True)
        assert weighted.tolist() == [8.0, 10.0]
        backward(outputs, inputs={"only": w})
        assert x.grad is None
        assert w.grad is not None
        assert w.grad.item() == 3.0

    def test_edges_everywhere(self) -> None:
        x = leaf([1.0, 2.0])
        y = x * x
        z = (y * 3.0).sum()
        edge = tk.autograd.graph.get_gradient_edge
        assert grad(edge(z), edge(y), retain_graph=True)[0].tolist() == [3.0, 3.0]
        assert grad({"z": edge(z)}, {"y": edge(y)}, retain_graph=True)["y"].tolist() == [3.0, 3.0]
        assert grad(edge(y), edge(x), grad_outputs=ones(2), retain_graph=True)[0].tolist() == [2.0, 4.0]
        backward(edge(y), ones(2), inputs=[edge(x)])
        assert x.grad is not None
        assert x.grad.tolist() == [2.0, 4.0]

    def test_the_parts_of_an_edge_are_checked(self) -> None:
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        node: Any = y.grad_fn
        wrong: list[tuple[Any, type[Exception], str]] = [
            (GradientEdge(3, 0), TypeError, r"a GradientEdge is a node .* got \(int, 0\): take"),  # type: ignore[arg-type]
            (GradientEdge(node, "x"), TypeError, r"a GradientEdge is a node .* got \(SumBackward, 'x'\)"),  # type: ignore[arg-type]
            (GradientEdge(3, "x"), TypeError, "a GradientEdge is a node"),  # type: ignore[arg-type]
            (GradientEdge(node, 7), IndexError, "output 7 of SumBackward, which has 1"),
            (GradientEdge(node, -1), IndexError, "output -1 of SumBackward, which has 1"),
            (GradientEdge(None, 0), RuntimeError, "does not require grad"),  # type: ignore[arg-type]
        ]
        for edge, error, text in wrong:
            calls: list[tuple[str, Any]] = [
                ("grad", lambda edge=edge: grad(edge, x, retain_graph=True)),
                ("grad", lambda edge=edge: grad(y, edge, retain_graph=True)),
                ("backward", lambda edge=edge: backward(edge, retain_graph=True)),
                ("backward", lambda edge=edge: backward(y, inputs=[edge], retain_graph=True)),
                ("draw", lambda edge=edge: tk.autograd.draw(edge)),
                ("draw", lambda edge=edge: tk.autograd.draw([edge])),
            ]
            for name, call in calls:
                with pytest.raises(error, match=rf"\[{name}\] .*{text}"):
                    call()
        assert x.grad is None
        (found,) = grad(GradientEdge(node, np.int64(0)), x)  # type: ignore[arg-type]
        assert found.tolist() == [2.0, 4.0]

    @pytest.mark.parametrize("name", ["retain_graph", "create_graph"])
    def test_flags_are_bools(self, name: str) -> None:
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        for value in ("x", 2.0, []):
            for call, run in (
                ("backward", y.backward),
                ("backward", lambda **o: backward(y, **o)),
                ("grad", lambda **o: grad(y, x, **o)),
            ):
                with pytest.raises(TypeError, match=rf"\[{call}\] {name} must be a bool, got "):
                    run(**{name: value})
        assert x.grad is None
        for right in (1, np.True_, np.int64(1), True):
            y.backward(**{name: right})  # the graph is kept
        y.backward(retain_graph=0)
        assert x.grad is not None
        assert x.grad.tolist() == [10.0, 20.0]
        with pytest.raises(RuntimeError, match="retain_graph=True"):
            y.backward(retain_graph=False)

    def test_batches_of_gradients(self) -> None:
        x = leaf([1.0, 2.0, 3.0])
        y = x * x
        (jacobian,) = grad(y, x, tk.eye(3, dtype=tk.float64), is_grads_batched=True, retain_graph=True)
        assert jacobian.tolist() == np.diag([2.0, 4.0, 6.0]).tolist()
        (first,) = grad(y, x, tk.eye(3, dtype=tk.float64), is_grads_batched=True, create_graph=True)
        (second,) = grad(first.sum(), x)
        assert second.tolist() == [2.0, 2.0, 2.0]
        with pytest.raises(RuntimeError, match=r"If `is_grads_batched=True`, .*grad_output\[0\] .* of \(2, 2\)"):
            grad(x * x, x, ones(2, 2), is_grads_batched=True)
        with pytest.raises(RuntimeError, match="is_grads_batched"):
            grad((x * x).sum(), x, is_grads_batched=True)
        unused = leaf(1.0)
        found = grad(x * x, [x, unused], ones(2, 3), is_grads_batched=True, allow_unused=True)
        assert found[1] is None
        zeros = grad(x * x, [unused], ones(2, 3), is_grads_batched=True, materialize_grads=True)
        assert zeros[0].tolist() == [0.0, 0.0]

    def test_words_of_refusals(self) -> None:
        x = leaf([1.0, 2.0])
        with pytest.raises(RuntimeError, match="For complex Tensors, both grad_output and output are required to have"):
            (x * 2.0).backward(tk.ones(2, dtype=tk.complex128))
        with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty"):
            (x * 2.0).sum().backward(inputs=[])
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            grad((x * 2.0).sum(), leaf(1.0))
        with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads"):
            grad((x * 2.0).sum(), x, allow_unused=False, materialize_grads=True)
        with pytest.raises(NotImplementedError, match="inside of vmap"):
            tk.transforms.vmap(lambda one: backward((one * x).sum()))(ones(3))
        assert x.grad is None
