// The server's API. Addresses are relative: the page works under any path.

import { events } from "./sse.js";

const KEY = "polyhop-key";

/** An error that the server reports, or of the connection to it. */
export class Problem extends Error {
  constructor(message, status = 0, param = null) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

/** Keep a key for this tab; it goes with every request. */
export const keep = (key) => sessionStorage.setItem(KEY, key);

async function send(path, options = {}) {
  const key = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached.");
  }
  if (response.ok) return response;
  const reply = await response.json().catch(() => ({}));
  throw new Problem(reply.error?.message || `The server said ${response.status}.`, response.status, reply.error?.param);
}

export const get = async (path, signal) => (await send(path, { signal })).json();

/** A drawing of the server as an address that an `<img>` takes: there nothing in it can run. */
export const picture = async (path) =>
  `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await (await send(path)).text())}`;

/** Ask; what happens comes as events. Aborting `signal` ends the work on the server too. */
export async function* ask(body, signal) {
  const response = await send("v1/ask", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  });
  yield* events(response.body);
}

/** A path of parts that may hold anything. */
export const at = (...parts) => parts.map(encodeURIComponent).join("/");
