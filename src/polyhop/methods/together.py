"""Asking several things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all of ``work``, run at once, in order. All or nothing: an error in one, such as a budget that is
    spent, ends the others.

    >>> asyncio.run(together(asyncio.sleep(0, result=n) for n in range(3)))
    [0, 1, 2]
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
    return [task.result() for task in tasks]
