"""Profiling a training step: where the time and the memory of a small model go.

    python examples/profile_training.py [--steps N] [--out FOLDER]

The program trains a small network on a synthetic task, records some steps with `tk.autograd.profile`, prints the
operators that take the time and allocate the memory, checks the record, and writes `trace.json` (for
https://ui.perfetto.dev, `chrome://tracing`, or `vizviewer trace.json`: `pip install tenkey[profile]`), `memory.csv`,
and `graph.svg`, a picture of the graph.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import tenkey as tk

INPUTS, HIDDEN, BATCH = 16, 256, 512


def check(claim: str, holds: bool) -> None:
    """Assert a claim and print it."""
    if not holds:
        raise AssertionError(f"not so: {claim}")
    print(f"ok: {claim}")


def new_parameters() -> dict[str, tk.Tensor]:
    """Return the weights and biases of two layers."""
    made = {
        "w1": tk.random.normal((INPUTS, HIDDEN), std=math.sqrt(1 / INPUTS)),
        "b1": tk.zeros(HIDDEN),
        "w2": tk.random.normal((HIDDEN, 1), std=math.sqrt(1 / HIDDEN)),
        "b2": tk.zeros(1),
    }
    return {name: parameter.requires_grad_() for name, parameter in made.items()}


@tk.autograd.record_function("model")  # tables and traces show its calls as one block of this name
def model(parameters: dict[str, tk.Tensor], x: tk.Tensor) -> tk.Tensor:
    """Return a number for each row."""
    hidden = tk.tanh(x @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


def loss_of(parameters: dict[str, tk.Tensor]) -> tk.Tensor:
    """Return the mean squared error on a new batch of the task: the length of the first four inputs."""
    with tk.autograd.record_function("data"):
        x = tk.random.normal((BATCH, INPUTS))
        wanted = tk.sqrt(tk.sum(x[:, :4] ** 2, axis=1, keepdims=True))
    return tk.mean((model(parameters, x) - wanted) ** 2)


def step(parameters: dict[str, tk.Tensor], rate: float = 0.05) -> float:
    """Do one step of gradient descent, and return the loss before it."""
    loss = loss_of(parameters)
    loss.backward()
    with tk.autograd.record_function("update"), tk.no_grad():
        for parameter in parameters.values():
            assert parameter.grad is not None
            parameter -= rate * parameter.grad
            parameter.grad = None
    return float(loss.item())


def main() -> None:
    """Train, record, print, check, write."""
    parser = argparse.ArgumentParser(description="Profiles the training of a small model.")
    parser.add_argument("--steps", type=int, default=5, help="how many steps are recorded (default: 5)")
    parser.add_argument(
        "--out", type=Path, default=Path(), help="folder for trace, timeline and picture (default: here)"
    )
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, got {options.steps}")
    tk.random.seed(0)
    parameters = new_parameters()
    losses = [step(parameters) for _ in range(20)]  # kernels are compiled in the first steps, which are not measured

    with tk.autograd.profile(record_shapes=True, profile_memory=True) as prof:
        for number in range(options.steps):
            with tk.autograd.record_function(f"step {number}"):
                losses.append(step(parameters))
    print(f"Loss: {losses[0]:.3f}, after {len(losses)} steps {losses[-1]:.3f}.\n")

    averages = prof.key_averages()
    print(averages.table(sort_by="self_cpu_time_total", row_limit=10, header="What takes the time:"), end="\n\n")
    largest = prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_memory_usage", row_limit=5)
    print(f"What allocates the memory:\n{largest}\n")

    events = prof.events()
    counts = {row.key: row.count for row in averages}
    check("every step is there", all(counts[f"step {i}"] == 1 for i in range(options.steps)))
    check("tanh ran once a step, and so did its node", counts["tk::tanh"] == counts["TanhBackward"] == options.steps)
    nodes = [event for event in events if event.name == "TanhBackward"]
    linked = all(node.forward is not None and node.forward.sequence_nr == node.sequence_nr for node in nodes)
    check("each node is linked to its call by their sequence number", linked)
    blocks = [event for event in events if event.name == "model"]
    inside = [event.name for block in blocks for event in block.cpu_children]
    check("tanh ran inside of the model", inside.count("tk::tanh") == options.steps)
    own = sum(row.self_cpu_time_total for row in averages)
    total = sum(event.cpu_time_total for event in events if event.cpu_parent is None)
    check("the operators' own times add up to the whole", math.isclose(own, total, rel_tol=0.05))
    left = sum(record.bytes for record in prof.memory_timeline())
    check("the steps left no memory behind", left <= 4 * BATCH)

    options.out.mkdir(parents=True, exist_ok=True)
    prof.export_chrome_trace(options.out / "trace.json")
    prof.export_memory_timeline(options.out / "memory.csv")
    tk.autograd.draw({"loss": loss_of(parameters)}, params=parameters).save(options.out / "graph.svg")
    print(f"Wrote {options.out / 'trace.json'}: open it at https://ui.perfetto.dev or with `vizviewer`.")


if __name__ == "__main__":
    main()
