// The layout of a drawing: from nodes with sizes to positions in pixels.

export const GAP = { row: 9, column: 36, step: 22 };
const WIDTHS = { tree: [138, 270], graph: [104, 230] };

/** The maximum width of a node and the kind of layout in `space` pixels; nodes are measured afterwards. */
export function plan({ shape, nodes }, space) {
  if (shape === "chain") return { way: "indented", width: space, space, step: 0 };
  const inner = nodes.filter((node) => node.kind !== "end").map((node) => node.depth);
  const columns = 1 + Math.max(shape === "tree" ? 1 : 0, ...inner) + (shape === "tree" ? 1 : 0);
  const each = (space - GAP.column * (columns - 1)) / columns;
  const [narrowest, widest] = WIDTHS[shape];
  if (each < narrowest) return { way: "indented", width: space, space, step: GAP.step };
  return { way: shape === "graph" ? "across" : "tidy", width: Math.min(each, widest), space, columns };
}

/** The width of a node under this plan. */
export const widthOf = (node, { way, width, space, step }) => {
  if (way === "indented") return width - node.depth * step;
  return way === "across" && (node.kind === "question" || node.kind === "end") ? space : width;
};

/** `{places: Map(id → {x, y, width, height}), width, height}`; `heights` are those of the nodes as they were measured. */
export function arranged({ nodes, edges }, plan, heights) {
  const places = { tidy, indented, across }[plan.way](nodes, edges, plan, heights);
  const all = [...places.values()];
  return {
    places,
    width: Math.max(0, ...all.map((place) => place.x + place.width)),
    height: Math.max(0, ...all.map((place) => place.y + place.height)),
  };
}

/** A tidy tree from left to right: leaves are stacked, a parent stands in the middle of its children; what the tree
    ends in has the last column, in the middle of what it comes of. That has a row of its own, which the line to the end
    goes along: its children are below it. */
function tidy(nodes, edges, plan, heights) {
  const places = new Map();
  const children = (id) => nodes.filter((node) => node.parent === id && node.kind !== "end");
  const ends = nodes.filter((node) => node.kind === "end");
  const leading = new Set(edges.filter(([, to]) => ends.some((end) => end.id === to)).map(([from]) => from));
  const set = (node, top) => {
    const height = heights.get(node.id);
    const place = { x: node.depth * (plan.width + GAP.column), y: top, width: plan.width, height };
    places.set(node.id, place);
    const under = children(node.id);
    const alone = !under.length || leading.has(node.id);
    let below = alone ? top + height + GAP.row : top;
    for (const child of under) below = set(child, below);
    if (alone) return below;
    const [first, last] = [places.get(under[0].id), places.get(under.at(-1).id)];
    place.y = Math.max(top, (first.y + last.y) / 2); // marks are at the top of their nodes
    return Math.max(below, place.y + height + GAP.row);
  };
  set(nodes[0], 0);
  let top = 0;
  for (const node of ends) {
    const from = edges.filter(([, to]) => to === node.id).map(([id]) => places.get(id));
    const middle = from.reduce((sum, place) => sum + place.y, 0) / from.length;
    const [x, height] = [(plan.columns - 1) * (plan.width + GAP.column), heights.get(node.id)];
    places.set(node.id, { x, y: Math.max(top, middle), width: plan.width, height });
    top = places.get(node.id).y + height + GAP.row;
  }
  return places;
}

/** One under the other, moved in by their depth. */
function indented(nodes, edges, plan, heights) {
  const places = new Map();
  let y = 0;
  for (const node of nodes) {
    const x = node.depth * plan.step;
    places.set(node.id, { x, y, width: widthOf(node, plan), height: heights.get(node.id) });
    y += heights.get(node.id) + (plan.step ? GAP.row : GAP.step);
  }
  return places;
}

/** A graph in columns from left to right, each node beside its sources; the question above, the end below. */
function across(nodes, edges, plan, heights) {
  const places = new Map();
  const inside = nodes.filter((node) => node.kind !== "question" && node.kind !== "end");
  const columns = Map.groupBy(inside, (node) => node.depth);
  const row = Math.max(0, ...inside.map((node) => heights.get(node.id))) + GAP.step;
  let top = 0;
  const whole = (node) => {
    places.set(node.id, { x: 0, y: top, width: plan.space, height: heights.get(node.id) });
    top += heights.get(node.id) + GAP.step;
  };
  nodes.filter((node) => node.kind === "question").forEach(whole);
  let lowest = top;
  for (const depth of [...columns.keys()].sort((one, other) => one - other)) {
    let free = top;
    for (const node of columns.get(depth)) {
      const before = edges
        .filter(([from, to]) => to === node.id && places.has(from))
        .map(([from]) => places.get(from).y);
      const y = Math.max(free, before.reduce((sum, each) => sum + each, 0) / before.length || 0);
      places.set(node.id, { x: depth * (plan.width + GAP.column), y, width: plan.width, height: heights.get(node.id) });
      free = y + row;
    }
    lowest = Math.max(lowest, free);
  }
  top = lowest;
  nodes.filter((node) => node.kind === "end").forEach(whole);
  return places;
}
