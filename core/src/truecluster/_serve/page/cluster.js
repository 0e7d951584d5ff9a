// The cluster at a glance, read every two seconds while somebody looks.
import * as api from "./api.js";
import { byId, element } from "./dom.js";
import { panel, summary } from "./panel.js";

const EVERY = 2000; // milliseconds

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
    const view = await api.cluster();
    draw(summary(view), panel(view));
  } catch (error) {
    const said = error instanceof api.ApiError ? error.message : `The server can't be followed: ${error.message}`;
    const text = error.status === 401 ? "no key" : "not reached";
    draw({ state: "away", text }, [element("p", { className: "error" }, said)]);
  }
}

function draw({ state, text }, sections) {
  patch(byId("cluster"), sections);
  byId("status").querySelector(".dot").dataset.state = state;
  byId("status").querySelector(".words").replaceChildren(element("small", {}, `${state} · `), text);
}

/** Put `wanted` into `target`; what is the same already stays, so that nobody is interrupted in reading it. */
function patch(target, wanted) {
  wanted.forEach((made, index) => {
    const there = target.children[index];
    if (!there) target.append(made);
    else if (!there.isEqualNode(made)) there.replaceWith(made);
  });
  while (target.children.length > wanted.length) target.lastElementChild.remove();
}
