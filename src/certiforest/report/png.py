"""Small pictures as PNG inside data addresses."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray


def towards(share: NDArray[np.float64], colour: ArrayLike) -> str:
    """Return a picture whose pixels go from white to a colour as shares go from 0 to 1, as a data address."""
    return _png(np.round(255 + share[:, :, None] * (np.asarray(colour) - 255)).astype(np.uint8))


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
