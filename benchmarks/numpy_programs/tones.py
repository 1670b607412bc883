"""Tones in a noisy recording: a window, a spectrum, its peaks, and a filter that keeps them."""

from typing import Any

import numpy as np


def peaks(spectrum: Any, count: int) -> Any:
    """Return the positions of the greatest local maxima."""
    middle = spectrum[1:-1]
    found = np.where((middle > spectrum[:-2]) & (middle > spectrum[2:]))[0] + 1
    return np.sort(found[np.argsort(spectrum[found])[::-1][:count]])


def main() -> Any:
    """Return the frequencies of the tones, the filtered signal, its gain in decibels, and a spectrogram."""
    rate, seconds = 8000, 2.0
    time = np.arange(0, seconds, 1 / rate)
    tones = {440.0: 1.0, 1000.0: 0.6, 2637.5: 0.3}
    clean = sum(strength * np.sin(2 * np.pi * tone * time) for tone, strength in tones.items())
    noise = np.mod(np.sin(np.arange(time.size) * 12.9898) * 43758.5453, 1.0) - 0.5
    noise = np.convolve(noise, np.ones(3) / 3, mode="same")
    signal = clean + 1.5 * noise + 0.2 * time

    trend = np.polyfit(time, signal, 1)
    signal = signal - np.polyval(trend, time)
    spectrum = np.fft.rfft(signal * np.hanning(len(signal)))
    frequencies = np.fft.rfftfreq(len(signal), 1 / rate)
    found = frequencies[peaks(np.abs(spectrum), len(tones))]

    keep = np.min(np.abs(frequencies[:, None] - found[None, :]), axis=1) < 20
    filtered = np.fft.irfft(np.fft.rfft(signal) * keep, n=len(signal))
    before, after = (np.var(x - clean) for x in (signal, filtered))
    frames = signal[: len(signal) // 256 * 256].reshape(-1, 256) * np.hamming(256)
    spectrogram = 20 * np.log10(np.maximum(np.abs(np.fft.rfft(frames, axis=-1)), 1e-6))
    return found, filtered, 10 * np.log10(before / after), spectrogram


if __name__ == "__main__":
    tones, _, gain, _ = main()
    print(tones, f"{gain:.1f} dB")
