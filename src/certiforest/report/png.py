"""Small pictures as PNG inside data addresses."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def grey(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [0, 1], 1 the darkest, as a data address."""
    level = np.round(255 * (1 - np.clip(image, 0, 1))).astype(np.uint8)
    return _png(np.repeat(level[:, :, None], 3, axis=2))


def signed(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [-1, 1]: less is blue, more is red, nothing is white."""
    strength = np.abs(np.clip(image, -1, 1)) ** 0.5  # small changes should be seen, too
    toward = np.where((image > 0)[:, :, None], np.array([213, 40, 0.0]), np.array([0, 90, 200.0]))
    return _png(np.round(255 + strength[:, :, None] * (toward - 255)).astype(np.uint8))


def heat(image: NDArray[np.float64]) -> str:
    """Return a picture of values in [0, 1] from white to deep blue."""
    strength = np.clip(image, 0, 1)[:, :, None] ** 0.5
    return _png(np.round(255 + strength * (np.array([8, 48, 107.0]) - 255)).astype(np.uint8))


def _png(pixels: NDArray[np.uint8]) -> str:
    """Encode (height, width, 3) pixels as PNG in a data address; a few hundred bytes for a small picture."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in np.ascontiguousarray(pixels))

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    image = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(image).decode("ascii")
