// The cluster at a glance, read every two seconds while somebody looks.
import * as api from "./api.js";
import { byId, element } from "./dom.js";
import { panel, words } from "./panel.js";

const EVERY = 2000; // milliseconds

const SAID = { ready: "ready", waiting: "waiting", away: "away" };

let seen = "";

/** Begin to watch; hidden pages don't ask. */
export function start() {
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  watch();
}

async function watch() {
  if (!document.hidden) await refresh();
  setTimeout(watch, EVERY);
}

async function refresh() {
  try {
    const view = await api.cluster(), text = JSON.stringify(view);
    if (text !== seen) draw(words(view), panel(view));
    seen = text;
  } catch (error) {
    seen = "";
    const needsKey = error.status === 401;
    const said = error instanceof api.ApiError ? error.message : "The server doesn't answer.";
    draw({ state: "away", text: needsKey ? "no key" : "not reached" }, [element("p", { className: "error" }, said)]);
  }
}

function draw({ state, text }, elements) {
  byId("cluster").replaceChildren(...elements);
  byId("status").querySelector(".dot").dataset.state = state;
  byId("status").querySelector(".words").replaceChildren(element("small", {}, `${SAID[state]} · `), text);
}
