"""The main job: a two-layer network learns to read handwritten digits, with an operator that this file defines.

    python examples/digits.py [--device NAME] [--epochs N] [--seed N] [--out FILE]

The data are the 1,797 digits that ship with scikit-learn: images of 8 x 8 pixels with values from 0 to 16. Four fifths
train the network, the held-out fifth tests it. Nothing is hidden in a library of layers: the network, the loss and the
optimizer are the few lines below. The program takes a few seconds on a CPU and draws the result in digits.png.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from tqdm import tqdm

import tenkey as tk
from tenkey.library import scalar as s

mpl.use("Agg")  # draws into files, which needs no screen
import matplotlib.pyplot as plt

HIDDEN, BATCH, PEAK_RATE, MOMENTUM, NOISE = 128, 32, 0.2, 0.9, 0.2

# The activation between the two layers is not built in: this expression makes it an operator. Its derivatives are found
# symbolically, its kernels are compiled. Mish is x tanh(log(1 + exp x)), Misra 2019, arXiv:1908.08681; it is written
# with `softplus`, which does not overflow where exp does.
mish = tk.library.pointwise(
    "digits::mish(Tensor x) -> Tensor",
    scalar=lambda T: lambda x: x * s.tanh(s.softplus(x)),
    doc="A smooth activation: like x for large x, like 0 for very negative x.",
)


def load(device: str) -> tuple[tk.Tensor, tk.Tensor, tk.Tensor, tk.Tensor]:
    """Return images, shape (rows, 64), from 0 to 1, and digits, shape (rows,): for training, then held out."""
    data = load_digits()
    images = tk.asarray(data.data / 16.0, dtype=tk.float32, device=device)
    digits = tk.asarray(data.target, device=device)
    # The file is not in random order, so it is shuffled, always in the same way: runs with other seeds are tested on
    # the same digits. A separate generator leaves the global one, which --seed sets, unchanged.
    order = tk.random.permutation(len(images), generator=tk.random.Generator(7), device=device)
    held_out, train = order[: len(images) // 5], order[len(images) // 5 :]
    return images[train], digits[train], images[held_out], digits[held_out]


def new_parameters(device: str) -> list[tk.Tensor]:
    """Return the weights and biases of both layers, as leaves that accumulate gradients."""

    def weights(inputs: int, outputs: int) -> tk.Tensor:
        # This deviation keeps the size of activations similar from layer to layer (He et al. 2015).
        return tk.random.normal((inputs, outputs), std=math.sqrt(2 / inputs), device=device)

    layers = [weights(64, HIDDEN), tk.zeros(HIDDEN, device=device), weights(HIDDEN, 10), tk.zeros(10, device=device)]
    return [parameter.requires_grad_() for parameter in layers]


def network(parameters: list[tk.Tensor], images: tk.Tensor) -> tk.Tensor:
    """Return a score for each digit, shape (rows, 10); the softmax of a row gives the probabilities."""
    w1, b1, w2, b2 = parameters
    return mish(images @ w1 + b1) @ w2 + b2


def train(parameters: list[tk.Tensor], images: tk.Tensor, digits: tk.Tensor, epochs: int) -> list[float]:
    """Train the parameters in place by gradient descent with momentum; return the mean loss of each epoch."""
    velocities = [tk.zeros_like(parameter) for parameter in parameters]
    starts = range(0, len(images), BATCH)
    history: list[float] = []
    with tqdm(range(epochs), desc="training", unit="epoch") as progress:  # writes to stderr
        for epoch in progress:
            # The rate decreases along half a cosine: large steps find the valley, small ones its bottom.
            rate = PEAK_RATE * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
            order = tk.random.permutation(len(images), device=images.device)
            losses = []
            for start in starts:
                batch = order[start : start + BATCH]
                # With noise on the pixels, the network cannot memorize single images.
                noise = tk.random.normal((len(batch), 64), std=NOISE, device=images.device)
                loss = tk.cross_entropy(network(parameters, images[batch] + noise), digits[batch])
                loss.backward()  # stores the gradient of the loss in parameter.grad
                with tk.no_grad():  # the update is not part of the differentiated function
                    for parameter, velocity in zip(parameters, velocities, strict=True):
                        assert parameter.grad is not None  # set by backward
                        velocity *= MOMENTUM
                        velocity += parameter.grad
                        parameter -= rate * velocity
                        parameter.grad = None  # else the next backward would add to it
                losses.append(loss.detach())
            history.append(tk.mean(tk.stack(losses)).item())
            progress.set_postfix(loss=f"{history[-1]:.4f}")
    return history


def draw(file: Path, history: list[float], images: np.ndarray, digits: np.ndarray, probabilities: np.ndarray) -> None:
    """Draw the loss curve, the first twelve digits, and the six that were hardest for the network."""
    guesses, sure = probabilities.argmax(axis=1), probabilities.max(axis=1)
    hardest = np.argsort(probabilities[np.arange(len(digits)), digits])  # by the probability of the right answer
    figure = plt.figure(figsize=(12, 5.4), dpi=120, layout="constrained")
    figure.suptitle(f"{np.mean(guesses == digits):.1%} of the held-out digits read right; last row: the six hardest")
    grid = figure.add_gridspec(3, 7, width_ratios=[5, 1, 1, 1, 1, 1, 1])
    curve = figure.add_subplot(grid[:, 0])
    curve.plot(range(1, len(history) + 1), history, color="tab:blue", linewidth=2)
    curve.set(title="Loss while training", xlabel="epoch", ylabel="mean cross-entropy of the epoch")
    curve.set_ylim(bottom=0)
    curve.grid(alpha=0.3)
    for place, k in enumerate([*range(12), *hardest[:6]]):
        cell = figure.add_subplot(grid[place // 6, 1 + place % 6])
        cell.imshow(images[k].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        is_right = guesses[k] == digits[k]
        answer = str(guesses[k]) if is_right else f"{guesses[k]}, is {digits[k]}"
        cell.set_title(answer, color="tab:green" if is_right else "tab:red", pad=3)
        cell.set(xticks=[], yticks=[], xlabel=f"{sure[k]:.0%} sure")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)
    plt.close(figure)


def main() -> None:
    """Read the options, train, test, draw."""
    parser = argparse.ArgumentParser(description="Trains a two-layer network on scikit-learn's handwritten digits.")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    parser.add_argument("--epochs", type=int, default=30, help="how often every image is seen (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the batches (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("digits.png"), help="the drawing (default: digits.png)")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    began = time.perf_counter()
    tk.random.seed(options.seed)
    images, digits, test_images, test_digits = load(options.device)
    print(f"{len(images)} digits to learn from, {len(test_images)} held out, on device {str(images.device)!r}.")
    parameters = new_parameters(options.device)
    print(f"Network: 64 pixels -> {HIDDEN} mish -> 10 digits, {sum(p.size for p in parameters):,} parameters.")

    print("\nHow a call of mish, the operator that this file registered, finds its kernel:")
    print(tk.dispatch.explain(mish, images[:2] @ parameters[0]), end="\n\n")

    history = train(parameters, images, digits, options.epochs)
    with tk.no_grad():
        probabilities = tk.softmax(network(parameters, test_images))
    accuracy = tk.mean((tk.argmax(probabilities, axis=1) == test_digits).astype(tk.float32)).item()
    print(f"\nLoss fell from {history[0]:.3f} to {history[-1]:.4f} in {options.epochs} epochs.")
    print(f"Test accuracy: {accuracy:.4f} on the {len(test_images)} held-out digits.")
    draw(options.out, history, *(x.numpy() for x in (test_images, test_digits, probabilities)))
    print(f"Drew {options.out}. All of it took {time.perf_counter() - began:.1f} s.")


if __name__ == "__main__":
    main()
