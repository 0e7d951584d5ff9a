// The nodes, and the coordinator where it hosts something: what each does, and what is planned of its memory.
import { element } from "./dom.js";
import { GAP, bytes } from "./units.js";

export function nodes(view, colours) {
  return element("ul", { className: "nodes" }, ...hosts(view).map((host) => card(host, colours)));
}

/** Whoever hosts something in a token's order, then the spares: what a node says, what is planned, what its stages do. */
function hosts(view) {
  const said = new Map(view.nodes.map((node) => [node.id, node]));
  const planned = new Map((view.plan?.stages ?? []).map((share) => [share.node, share]));
  const hosting = [...new Set(view.stages.map((stage) => stage.node))];
  const spares = view.nodes.map((node) => node.id).filter((id) => !hosting.includes(id));
  return [...hosting, ...spares].map((id) => {
    const stages = view.stages.filter((stage) => stage.node === id);
    const span = stages.map((stage) => stage.span).join(", ");
    return { ...said.get(id), share: planned.get(id), id, span, busy: busy(stages) };
  });
}

/** The share of the last seconds that a node computed, or null where that isn't known. */
function busy(stages) {
  const shares = stages.map((stage) => stage.busy_share).filter((share) => share !== null);
  return shares.length ? Math.min(1, shares.reduce((sum, share) => sum + share, 0)) : null;
}

function card({ id, span, share, busy, state, device, hostname }, colours) {
  const name = element("strong", {}, element("i", { className: "swatch" }), id);
  const where = [device ?? share?.device, hostname].filter(Boolean).join(" · ");
  const doing = busy === null ? state ?? "" : `${Math.round(100 * busy)} % busy`;
  return element(
    "li",
    { className: span ? colours.get(id) : "spare" },
    row(name, where),
    row(element("span", {}, span || "hosts nothing"), doing),
    ...(share ? memory(share) : []),
  );
}

function row(what, note) {
  return element("div", { className: "row" }, what, element("span", { className: "note" }, note));
}

function memory({ needed, weights, ends, state, free }) {
  const parts = { weights: weights + ends, state, rest: needed - weights - ends - state, free: Math.max(free - needed, 0) };
  const bar = Object.entries(parts).map(([className, size]) => {
    const part = element("i", { className });
    part.style.flexGrow = String(size);
    return part;
  });
  const of = free === null ? "" : ` of ${bytes(free)}`;
  const text = `${bytes(needed)}${of}: ${bytes(parts.weights)}${GAP}weights, ${bytes(state)}${GAP}state`;
  return [
    element("div", { className: "memory", ariaHidden: "true" }, ...bar),
    element("div", { className: "note" }, text),
  ];
}
