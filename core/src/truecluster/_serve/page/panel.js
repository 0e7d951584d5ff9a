// A cluster as `GET /cluster` tells it, as elements.
import { element } from "./dom.js";
import { parts } from "./spans.js";
import { bytes } from "./units.js";

const COLOURS = 8;

/** The state for the dot, and how many nodes there are. */
export function words(view) {
  const count = view.nodes.length;
  return { state: view.plan ? "ready" : "waiting", text: `${count} node${count === 1 ? "" : "s"}` };
}

/** What the panel shows. */
export function panel(view) {
  const stages = view.plan?.stages ?? [];
  const names = new Set([...stages.map((stage) => stage.node), ...view.nodes.map((node) => node.id)]);
  const colours = new Map([...names].map((name, index) => [name, `node-${index % COLOURS}`]));
  return [
    element("h2", {}, view.model),
    ...(stages.length ? [layers(stages, colours)] : []),
    element("ul", { className: "nodes" }, ...hosts(view, stages).map((host) => card(host, colours))),
  ];
}

function layers(stages, colours) {
  const bar = parts(stages).map(({ node, label, blocks }) => {
    const part = element("li", { className: `part ${colours.get(node)}`, title: `${label} on ${node}` }, label);
    part.style.flexGrow = String(Math.max(blocks, 1));
    part.classList.toggle("end", blocks === 0);
    return part;
  });
  return element("ol", { className: "layers", ariaLabel: "The model's parts, and where they are" }, ...bar);
}

/** Every node, and whoever else hosts something, in a token's order; what is planned beside what the node says. */
function hosts(view, stages) {
  const nodes = new Map(view.nodes.map((node) => [node.id, node]));
  const planned = stages.map((stage) => ({ ...nodes.get(stage.node), ...stage, id: stage.node }));
  const spares = view.nodes.filter((node) => !stages.some((stage) => stage.node === node.id));
  return [...planned, ...spares];
}

function card(host, colours) {
  const name = element("strong", {}, element("i", { className: "swatch" }), host.id);
  const where = element("span", { className: "note" }, [host.device, host.hostname].filter(Boolean).join(" · "));
  return element(
    "li",
    { className: host.span ? colours.get(host.id) : "spare" },
    element("div", { className: "row" }, name, where),
    element("div", {}, host.span ?? "spare"),
    ...(host.needed ? memory(host) : []),
  );
}

/** What is planned of a node's memory: weights, the state of requests, what else a process takes, and what stays free. */
function memory({ needed, weights, ends, state, free }) {
  const parts = { weights: weights + ends, state, rest: needed - weights - ends - state, free: Math.max(free - needed, 0) };
  const bar = Object.entries(parts).map(([className, size]) => {
    const part = element("i", { className });
    part.style.flexGrow = String(size);
    return part;
  });
  const of = free === null ? "" : ` of ${bytes(free)}`;
  const text = `${bytes(needed)}${of}: ${bytes(parts.weights)} weights, ${bytes(state)} state`;
  return [
    element("div", { className: "memory", ariaHidden: "true" }, ...bar),
    element("div", { className: "note" }, text),
  ];
}
