"""An agent that uses polyhop's tools over the Model Context Protocol, as a desktop assistant does.

`polyhop mcp` runs as a child process, over its stdin and stdout. A script replaces the agent's language model: it
receives the result of each tool and chooses the next call. It needs `pip install 'polyhop[mcp]'`.

    python examples/mcp_agent.py

prints

    tools: answer_question, search_passages, get_trace
    > search_passages
        Metropolis is a German silent science-fiction film released in 1927 and directed by Fritz…
    > answer_question
        Vienna (supported)
    > get_trace
        In which city was the director of the science-fiction film Metropolis born?
        - [0] In which city was the director of the science-fiction film Metropolis born?
          - [1] search: In which city was the director of the science-fiction film Metropolis bor…
        - [2] cot.sentence: sentence: So the answer is Vienna.
        - [3] answer.read_cot: rationale: Metropolis – director: Fritz Lang; Fritz Lang – birth p…
    Vienna, according to Fritz Lang
"""

import asyncio
import os
import sys
from collections.abc import Generator
from typing import Any, TypeAlias

from mcp import Client, StdioServerParameters, stdio_client

Use: TypeAlias = tuple[str, dict[str, Any]]
QUESTION = "In which city was the director of the science-fiction film Metropolis born?"


def mind(question: str) -> Generator[Use, Any, str]:
    """Search first, then ask, then look at how the answer was found."""
    found = yield "search_passages", {"query": question, "k": 1}
    show(found["passages"][0]["text"])
    answered = yield "answer_question", {"question": question, "method": "ircot"}
    show(f"{answered['answer']} ({answered['support']})")
    looked_at = yield "get_trace", {"trace_id": answered["trace_id"]}
    for line in looked_at["outline"].splitlines():
        show(line)
    quoted = [citation["title"] for citation in answered["citations"] if citation["quotes"]]
    return f"{answered['answer']}, according to {' and '.join(quoted)}"


def show(text: str) -> None:
    print("   ", text if len(text) <= 90 else f"{text[:89]}…")


async def main() -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "polyhop", "mcp"], env=dict(os.environ))
    async with Client(stdio_client(server)) as polyhop:
        tools = (await polyhop.list_tools()).tools
        print("tools:", ", ".join(tool.name for tool in tools))

        agent = mind(QUESTION)
        name, arguments = next(agent)
        try:
            while True:
                print(f"> {name}")
                result = await polyhop.call_tool(name, arguments)
                name, arguments = agent.send(result.structured_content)
        except StopIteration as end:
            print(end.value)


asyncio.run(main())
