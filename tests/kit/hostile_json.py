"""Replies of servers that went wrong or wish harm: JSON in which values, keys or bytes were replaced, drawn by seed."""

from __future__ import annotations

import json
import random
from typing import Any

from polyhop.data.lines import check_depth

SHOWN = (
    "\x1b]0;title\x07\x1b[2J\u202egnp.exe\u2066\x00</script><script>hurt()</script>![x](http://tracker.example/?q=1)"
)
"""Texts that a terminal, a page or a chat client would obey."""

VALUES = (
    *("null", "true", "false", "-1", "0", "-0.0", "1e-400", "0.5", "[]", "{}", '""', "[[]]", "[null]", '{"": null}'),
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e308", "1e39", "9007199254740993", "18446744073709551616"),
    *("9" * 5000, "-" + "9" * 400, "1" + "0" * 30, "2147483648", "01", "0x10", "1_000", "+1"),
    *('"NaN"', '"1"', '"true"', '"\\ud800"', '"\\u0000"', '"a\\udc00b"', json.dumps(SHOWN), json.dumps("x" * 100_000)),
    *("[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000, '{"a":' * 900 + "1" + "}" * 900, '{"a":' * 90_000, "[" * 90_000),
    "[" + "0," * 20_000 + "0]",
    "{" + ",".join(f'"k{n}":{n}' for n in range(5000)) + "}",
)
"""Texts of JSON, valid and not, in place of a value."""

NAMES = ('""', '"\\u0000"', '"__proto__"', '"__class__"', '"\\ud800"', json.dumps(SHOWN), '"' + "k" * 50_000 + '"')
"""Texts of JSON in place of a key, or beside the keys of an object."""


def spoiled(value: Any, draw: random.Random) -> bytes:
    """Return the JSON of a value with one to three things wrong with it."""
    text = json.dumps(value)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        try:
            held = json.loads(text)
            check_depth(held)  # what is deeper stays as it is: changing it would go as deep
        except (ValueError, RecursionError):
            break
        text = _changed(held, draw, _paths(held))
    data = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.15:
        start = draw.randrange(len(data) + 1)
        put = draw.choice((b"", b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b",", b"}", b"//", b"\xef\xbb\xbf", data[:999]))
        data = data[:start] + put + data[start + draw.choice((0, 0, 1, 20, len(data))) :]
    return data


def _paths(value: Any) -> list[tuple[Any, ...]]:
    """The paths of all values inside a value, and of itself."""
    found: list[tuple[Any, ...]] = []
    left: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while left and len(found) < 2000:
        path, inner = left.pop()
        found.append(path)
        items = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        left += [((*path, key), item) for key, item in items]
    return found


def _changed(value: Any, draw: random.Random, paths: list[tuple[Any, ...]]) -> str:
    """The JSON of a value in which the value of one path was replaced, doubled, left out or given another key."""
    path = draw.choice(paths)
    way = draw.choice(("replace", "replace", "replace", "repeat", "rename", "drop", "twice", "many"))
    put = draw.choice(VALUES)

    def written(inner: Any, below: tuple[Any, ...] | None) -> str:
        if below == ():
            return {"many": f"[{','.join([json.dumps(inner)] * 50)}]"}.get(way, put)
        if below is None or not isinstance(inner, (dict, list)):
            return json.dumps(inner)
        parts = []
        for key, item in inner.items() if isinstance(inner, dict) else enumerate(inner):
            is_on_path = key == below[0]
            rest = below[1:] if is_on_path else None
            name = f"{json.dumps(key)}:" if isinstance(inner, dict) else ""
            if rest != () or way in ("replace", "many"):
                parts.append(name + written(item, rest))
            elif way == "repeat":  # the same key again: the last one counts for most readers
                parts += draw.sample([name + json.dumps(item), name + put], 2)
            elif way == "rename":
                parts.append((f"{draw.choice(NAMES)}:" if name else "") + json.dumps(item))
            elif way == "twice":
                parts += [name + json.dumps(item)] * 2
        return ("{%s}" if isinstance(inner, dict) else "[%s]") % ",".join(parts)

    return written(value, path)
