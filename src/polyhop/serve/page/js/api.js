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

const authorized = (headers) => {
  const key = sessionStorage.getItem(KEY);
  return { ...headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
};

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: authorized(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The server cannot be reached.");
  }
  if (response.ok) return response;
  throw problemOf(response.status, await response.json().catch(() => ({})));
}

const problemOf = (status, { error }) =>
  new Problem(error?.message || `The server said ${status}.`, status, error?.param);

export const get = async (path, signal) => (await request(path, { signal })).json();

export const remove = (path) => request(path, { method: "DELETE" });

/** A drawing of the server as an address that an `<img>` takes: there nothing in it can run. */
export const picture = async (path) =>
  `data:image/svg+xml;charset=utf-8,${encodeURIComponent(await (await request(path)).text())}`;

/** Ask; what happens comes as events. Aborting `signal` ends the work on the server too. */
export async function* ask(body, signal) {
  const response = await request("v1/ask", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
    body: JSON.stringify({ ...body, stream: true }),
    signal,
  });
  yield* events(response.body);
}

/** Send a form of files, which become a corpus. Besides the server's events, `sent` says how many bytes have gone: only
 * XMLHttpRequest tells. Aborting `signal` ends the work on the server too. */
export async function* send(form, signal) {
  const sending = new XMLHttpRequest();
  let push;
  const body = new ReadableStream({ start: (to) => (push = to), cancel: () => sending.abort() });
  const fail = (error) => push.error(error);
  let taken = 0;
  const take = () => {
    if (sending.status !== 200) return;
    const text = sending.responseText.slice(taken);
    taken += text.length;
    if (text) push.enqueue(new TextEncoder().encode(text));
  };
  sending.upload.onprogress = ({ loaded: done, total }) =>
    push.enqueue(new TextEncoder().encode(`event: sent\ndata: ${JSON.stringify({ done, total })}\n\n`));
  sending.onprogress = take;
  sending.onload = () => {
    take();
    if (sending.status === 200) push.close();
    else fail(problemOf(sending.status, parsed(sending.responseText)));
  };
  sending.onerror = () => fail(new Problem("The server cannot be reached, or refused the files."));
  sending.onabort = () => fail(new DOMException("", "AbortError"));
  signal.addEventListener("abort", () => sending.abort());
  sending.open("POST", "v1/corpora");
  for (const [name, value] of Object.entries(authorized({ Accept: "text/event-stream" })))
    sending.setRequestHeader(name, value);
  sending.send(form);
  yield* events(body);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

/** A path of parts that may hold anything. */
export const at = (...parts) => parts.map(encodeURIComponent).join("/");
