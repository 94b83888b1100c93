"""What a model worked out before and may need again, the least lately used forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any


class Memory:
    """Tensors by key, at most ``most_bytes`` of them together; one that is larger than that is not kept."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._held: OrderedDict[bytes, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: bytes) -> bool:
        return key in self._held

    def get(self, key: bytes) -> Any:
        """The tensor, or None."""
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, key: bytes, tensor: Any) -> None:
        """Keep ``tensor``, which must own its storage."""
        if key in self._held or tensor.nbytes > self.most_bytes:
            return
        self._held[key] = tensor
        self.bytes += tensor.nbytes
        while self.bytes > self.most_bytes:
            _, forgotten = self._held.popitem(last=False)
            self.bytes -= forgotten.nbytes

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self.bytes = 0
