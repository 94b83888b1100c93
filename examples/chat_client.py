"""Ask `polyhop serve` with a client for OpenAI's API: any chat program or library for it works.

Starts the server on a free port, asks it, and stops it. The model's name is a method, `tor`, or a method over one of
the server's corpora, `tor@demo`; the response's field `polyhop` has everything besides the text, such as citations.
It needs `pip install 'polyhop[serve]' openai`.

    python examples/chat_client.py

prints

    models: polyhop, tor …
    answer: Dunsink Observatory (supported)
        [1] Broom Bridge
        [2] William Rowan Hamilton
    streamed: Dunsink Observatory
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of a server that ends with the block."""
    command = [sys.executable, "-m", "polyhop", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:  # it logs JSON lines; one says where it listens
            logged = (json.loads(line) for line in server.stderr if line.startswith("{"))
            yield next(row["url"] for row in logged if row["event"] == "serving")
        finally:
            server.terminate()


QUESTION = "At which observatory did the mathematician live who cut a formula into the stone of Broom Bridge?"
ASKED: dict[str, Any] = {
    "messages": [{"role": "user", "content": QUESTION}],
    "extra_body": {"polyhop": {"settings": {"widths": [3, 2]}, "references": False}},
}

with served("--corpus", "demo") as url, OpenAI(base_url=f"{url}/v1", api_key="none") as client:
    models = [model.id for model in client.models.list()]
    print("models:", ", ".join(name for name in models if name in ("polyhop", "tor", "hops@demo")), "…")

    response = client.chat.completions.create(model="tor@demo", **ASKED)
    told = response.polyhop
    print("answer:", response.choices[0].message.content, f"({told['support']})")
    for citation in told["citations"]:
        print(f"    [{citation['marker']}] {citation['title']}")

    print("streamed: ", end="")
    for chunk in client.chat.completions.create(model="tor@demo", stream=True, **ASKED):
        print(chunk.choices[0].delta.content or "", end="")
    print()
