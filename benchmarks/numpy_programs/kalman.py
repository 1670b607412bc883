"""A Kalman filter and its smoother: a falling ball with drag, seen with errors."""

from typing import Any

import numpy as np


def main() -> Any:
    """Return the filtered and the smoothed states, the errors of both, and the log-likelihood."""
    steps, dt = 150, 0.05
    transition = np.array([[1, dt, dt**2 / 2], [0, 1, dt], [0, 0, 1]])
    process = 1e-3 * np.diag([dt**3, dt, dt]) + 1e-6 * np.eye(3)
    observe = np.array([[1.0, 0, 0], [0, 0, 1.0]])
    noise = np.diag([0.25, 0.04])
    time = dt * np.arange(steps)
    truth = np.stack([20 * time - 4.905 * time**2, 20 - 9.81 * time, np.full(steps, -9.81)], axis=1)
    seen = truth @ observe.T + np.column_stack([0.5 * np.sin(37.7 * time), 0.2 * np.cos(91.1 * time)])

    state, covariance = np.zeros(3), 100 * np.eye(3)
    states, covariances, predicted, predictions = [], [], [], []
    likelihood = 0.0
    for measured in seen:
        state = transition @ state
        covariance = transition @ covariance @ transition.T + process
        predicted.append(state)
        predictions.append(covariance)
        surprise = measured - observe @ state
        spread = observe @ covariance @ observe.T + noise
        gain = np.linalg.solve(spread, observe @ covariance).T
        state = state + gain @ surprise
        covariance = (np.eye(3) - gain @ observe) @ covariance
        likelihood -= 0.5 * (surprise @ np.linalg.inv(spread) @ surprise + np.log(np.linalg.det(2 * np.pi * spread)))
        states.append(state)
        covariances.append(covariance)
    smooth = states[-1:]
    for k in reversed(range(steps - 1)):
        back = covariances[k] @ transition.T @ np.linalg.inv(predictions[k + 1])
        smooth.insert(0, states[k] + back @ (smooth[0] - predicted[k + 1]))
    filtered, smoothed = np.array(states), np.vstack(smooth)
    errors = np.sqrt([np.mean((x - truth)[20:] ** 2) for x in (filtered, smoothed)])
    return filtered, smoothed, errors, likelihood


if __name__ == "__main__":
    print(*main()[2:])
