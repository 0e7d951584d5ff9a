// A model's parts along a token's way, from what each stage says that it hosts.

/** `[{ node, label, blocks }]` of stages whose spans are like "embed + blocks 0-11, head"; ends have 0 blocks. */
export function parts(stages) {
  const found = stages.flatMap(({ node, span }) => span.split(/, | \+ /).map((part) => ({ node, ...read(part) })));
  return found.sort((one, other) => one.place - other.place);
}

function read(part) {
  const blocks = /^blocks (\d+)-(\d+)$/.exec(part);
  if (!blocks) return { label: part, blocks: 0, place: part === "embed" ? -1 : Infinity };
  const [first, last] = [Number(blocks[1]), Number(blocks[2])];
  return { label: first === last ? `${first}` : `${first}-${last}`, blocks: last - first + 1, place: first };
}
