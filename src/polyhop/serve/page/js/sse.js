// Server-sent events out of a response's body, which EventSource cannot read of a POST.

/** Each event as `{event, data}`, `data` read as JSON; comments are passed over. */
export async function* events(body) {
  let event = "message";
  let data = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length) yield { event, data: JSON.parse(data.join("\n")) };
      event = "message";
      data = [];
      continue;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") event = value;
    if (name === "data") data.push(value);
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n"); // a lone CR ends no line of ours
      rest = parts.pop();
      for (const part of parts) yield part.endsWith("\r") ? part.slice(0, -1) : part;
    }
  } finally {
    await reader.cancel();
  }
}
