// The server's routes. Where it wants a key, whoever is at the page is asked for it.
import { events } from "./sse.js";

const KEY = "truecluster.key";

/** An error that can be shown as it is. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

let ask = async () => null; // a key, or null where there is none to be had
let asking = null;

/** Say how to ask for a key: a function of whether one was refused, to a promise of a key or null. */
export function askWith(asker) {
  ask = asker;
}

/** Ask for a key, once however many requests want one, and keep it. Whether there is one. */
export function obtainKey() {
  asking ??= ask(sessionStorage.getItem(KEY) !== null)
    .then((key) => key !== null && (sessionStorage.setItem(KEY, key), true))
    .finally(() => (asking = null));
  return asking;
}

/** A response that succeeded. Throws ApiError, and AbortError where `signal` aborts. */
async function call(path, options = {}, mayAsk = true) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const response = await reach(path, options, key);
    if (response.ok) return response;
    const isOld = key !== sessionStorage.getItem(KEY); // another request has been given a key meanwhile
    if (response.status !== 401 || !(isOld || (mayAsk && (await obtainKey())))) throw await failure(response);
  }
}

async function reach(path, options, key) {
  const headers = { ...options.headers, ...(key === null ? {} : { authorization: `Bearer ${key}` }) };
  try {
    return await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    throw readable(error, "The server can't be reached. Is it still running?");
  }
}

/** What a failed fetch or read means: an abort is what was wanted, anything else is the network's. */
function readable(error, message) {
  return error instanceof TypeError ? new ApiError(message) : error;
}

async function failure(response) {
  const body = await response.json().catch(() => null); // a proxy answers with whatever it likes
  const said = response.status === 401 ? "This server needs its API key." : body?.error?.message;
  const message = said ?? `The server answered ${response.status} ${response.statusText}`;
  const wait = response.headers.get("retry-after");
  return new ApiError(wait === null ? message : `${message}. Try again in ${wait} s.`, response.status);
}

/** The names of the models that can be asked. */
export async function models() {
  const response = await call("v1/models");
  return (await response.json()).data.map((model) => model.id);
}

/** The cluster as `GET /cluster` tells it. Nobody is asked for a key, since this is read again and again. */
export async function cluster() {
  const response = await call("cluster", { signal: AbortSignal.timeout(10_000) }, false);
  return response.json();
}

/** The chunks of a chat's answer as they come. Throws ApiError, also for what fails in the middle. */
export async function* answer(request, signal) {
  const body = JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } });
  const headers = { "content-type": "application/json" };
  const response = await call("v1/chat/completions", { method: "POST", headers, body, signal });
  try {
    for await (const data of events(response.body)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message);
      yield chunk;
    }
  } catch (error) {
    throw readable(error, BROKEN);
  }
  throw new ApiError(BROKEN);
}

const BROKEN = "The connection to the server broke off in the middle of the answer.";
