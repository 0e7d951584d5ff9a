// A cluster as `GET /cluster` tells it, as elements.
import { element } from "./dom.js";
import { nodes } from "./nodes.js";
import { layers } from "./layers.js";
import { bytes, duration, number } from "./units.js";

const COLOURS = 8;
const SAID = {
  packing: "packing", waiting: "waiting", planning: "loading", provisioning: "loading", "waiting-ready": "loading",
  running: "ready", faulted: "failed", completed: "stopping", "tearing-down": "stopping", done: "waiting",
};

/** What the cluster does, in a word, and how many nodes there are. */
export function summary(view) {
  const count = view.nodes.length;
  return { state: SAID[view.state], text: `${count} node${count === 1 ? "" : "s"}` };
}

/** The panel's sections. */
export function panel(view) {
  const names = new Set([...view.stages.map((stage) => stage.node), ...view.nodes.map((node) => node.id)]);
  const colours = new Map([...names].map((name, index) => [name, `node-${index % COLOURS}`]));
  return [
    element("h2", {}, view.model),
    figures(view),
    ...stalled(view.steps.stalled_seconds),
    ...view.progress.map(task),
    ...(view.stages.length ? [layers(view.stages, colours)] : []),
    view.nodes.length ? nodes(view, colours) : element("p", { className: "note" }, NOBODY),
    ...section("Connections", view.edges.filter((edge) => edge.route).map(connection)),
    ...section("Faults", view.faults.map(fault)),
    element("p", { className: "note" }, about(view)),
  ];
}

const NOBODY = "No node has joined yet. The command that started this server has printed the line to run on each.";

function figures({ tokens, requests, pages }) {
  const used = pages.total ? `${Math.round((100 * pages.held) / pages.total)} %` : "–";
  const all = {
    "tokens/s": (tokens.generated_per_second ?? 0).toFixed(1),
    running: number(requests.running),
    waiting: number(requests.waiting),
    "of state": used,
  };
  const tiles = Object.entries(all).map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  return element("dl", { className: "figures" }, ...tiles);
}

/** A step that takes longer than a prompt's may; its answer, or a fault, is to come. */
function stalled(seconds) {
  if (seconds === null || seconds < 5) return [];
  return [element("p", { className: "error" }, `No step was answered for ${duration(seconds)}.`)];
}

function task({ task, done, total }) {
  const bar = element("progress", { max: Math.max(total, 1), value: done, ariaLabel: task });
  const amount = element("span", { className: "note" }, `${bytes(done)} of ${bytes(total)}`);
  return element("div", { className: "task" }, element("div", { className: "row" }, element("span", {}, task), amount), bar);
}

function section(title, items) {
  if (!items.length) return [];
  return [element("section", {}, element("h3", {}, title), element("ul", { className: "list" }, ...items))];
}

function connection(edge) {
  const what = element("span", { className: "note" }, `${edge.route} · ${bytes(edge.bytes)}`);
  const title = `${edge.dtype} over ${edge.transport}`;
  return element("li", { className: "row", title }, element("span", {}, `${edge.from} → ${edge.to}`), what);
}

function fault({ message, count, seconds_ago }) {
  const when = `${duration(seconds_ago)} ago${count > 1 ? `, ${number(count)} times` : ""}`;
  return element("li", {}, element("div", { className: "error" }, message), element("div", { className: "note" }, when));
}

function about({ plan, uptime_seconds, tokens }) {
  return [
    plan && `${number(plan.context)} tokens of context`,
    `${number(tokens.generated)} tokens written`,
    `up ${duration(uptime_seconds)}`,
  ].filter(Boolean).join(" · ");
}
