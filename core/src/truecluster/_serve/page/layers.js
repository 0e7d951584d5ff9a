// The model as a bar: its parts along a token's way, in the colours of the nodes that host them.
import { element } from "./dom.js";

export function layers(stages, colours) {
  const bar = parts(stages).map(({ node, label, blocks }) => {
    const end = blocks ? "" : " end";
    const part = element("li", { className: `part ${colours.get(node)}${end}`, title: `${label} on ${node}` }, label);
    if (blocks) part.style.flexGrow = String(blocks);
    return part;
  });
  return element("ol", { className: "layers", ariaLabel: "The model's parts, and where they are" }, ...bar);
}

/** `[{ node, label, blocks }]` of stages whose spans are like "embed + blocks 0-11"; ends have 0 blocks. */
function parts(stages) {
  const found = stages.flatMap(({ node, span }) => span.split(" + ").map((part) => ({ node, ...read(part) })));
  return found.sort((one, other) => one.place - other.place);
}

function read(part) {
  const blocks = /^blocks (\d+)-(\d+)$/.exec(part);
  if (!blocks) return { label: part, blocks: 0, place: part === "embed" ? -1 : Infinity };
  const [first, last] = [Number(blocks[1]), Number(blocks[2])];
  return { label: first === last ? `${first}` : `${first}-${last}`, blocks: last - first + 1, place: first };
}
