// The view: a list or a grid of images. Only what is visible is in the document, however many there are.
"use strict";

const OVERSCAN = 3;
const LARGEST_PAGE = 20_000; // images; browsers cannot lay out higher documents
const NO_PART = { first: 0, last: 0, top: 0, lines: 0 };
const NOTHING = { length: 0, groups: [], row: () => undefined, parts: () => [] };

// Many images per line, each group below its heading, small groups side by side; without headings, a list: one image per
// line, as wide as it can be.
function createLayout(groups, base, end, width, card, heading) {
  const columns = heading ? Math.max(1, Math.floor(width / card)) : 1;
  const cell = width / columns, overscan = heading ? card : OVERSCAN * card;
  const parts = [];
  let top = 0, column = 0, height = 0;
  for (const group of groups) {
    const first = Math.max(base, group.start), last = Math.min(end, group.start + group.count);
    if (first >= last) continue;
    const span = Math.min(last - first, columns), lines = Math.ceil((last - first) / span);
    if (column + span > columns) [top, column] = [height, 0];
    parts.push({ group, first, last, top, lines, column, span, left: column * cell, width: span * cell });
    height = top + heading + lines * card;
    column += span;
  }
  const partOf = (position) => parts.findLast((part) => part.first <= position) ?? parts[0] ?? NO_PART;
  const partsWithin = (from, to) => parts.filter((part) => part.top < to && part.top + heading + part.lines * card > from);
  function box(position) {
    const part = partOf(position), place = position - part.first;
    return { left: part.left + (place % part.span) * cell, top: part.top + heading + Math.floor(place / part.span) * card, width: heading ? cell : null, height: card };
  }
  function range(from, to) {
    const seen = partsWithin(from - overscan, to + overscan);
    if (!seen.length) return [base, base];
    const line = (part, y) => Math.min(part.lines, Math.max(0, Math.floor((y - part.top - heading) / card)));
    const head = seen[0], tail = seen.at(-1);
    return [head.first + line(head, from - overscan) * head.span, Math.min(tail.last, tail.first + (line(tail, to + overscan) + 1) * tail.span)];
  }
  // The nearest image of the line above or below.
  function step(position, right, down) {
    if (!down || !heading) return position + right + down;
    const sign = Math.sign(down), isLine = (place, y) => place >= base && place < end && box(place).top === y;
    const { left, top: from } = box(position), away = (place) => Math.abs(box(place).left - left);
    let place = position;
    while (isLine(place, from)) place += sign;
    if (place < base || place >= end) return position;
    const line = box(place).top;
    while (isLine(place + sign, line) && away(place + sign) < away(place)) place += sign;
    return Math.abs(down) > 1 ? step(place, 0, down - sign) : place;
  }
  // Positions of the images that a rectangle touches.
  function within(area) {
    const positions = [];
    for (const part of partsWithin(area.top, area.bottom)) {
      const [first, last] = [area.top, area.bottom].map((y) => Math.floor((y - part.top - heading) / card));
      for (let line = Math.max(0, first); line <= Math.min(part.lines - 1, last); line++) {
        const [from, to] = [area.left, area.right].map((x) => Math.floor((x - part.left) / cell));
        for (let place = Math.max(0, from); place <= Math.min(part.span - 1, to); place++) {
          const position = part.first + line * part.span + place;
          if (position < part.last) positions.push(position);
        }
      }
    }
    return positions;
  }
  // The heading of a group belongs to its first line.
  const lead = (position) => (position - partOf(position).first < partOf(position).span ? partOf(position).top : box(position).top);
  return { height, margin: heading ? 0 : card, box, range, step, within, lead, headings: (from, to) => (heading ? partsWithin(from, to) : []) };
}

function createView(parts) {
  const view = $("#list"), rows = $("#rows");
  const nodes = new Map(); // position in the order → element
  const headings = new Map(); // start of a group → element
  let order = NOTHING, cursor = 0, base = 0, layout = createLayout([], 0, 0, 0, 1, 0);

  function measure() {
    const style = getComputedStyle(view);
    const number = (name) => parseFloat(style.getPropertyValue(name));
    base = Math.floor(cursor / LARGEST_PAGE) * LARGEST_PAGE;
    const end = Math.min(order.length, base + LARGEST_PAGE);
    layout = parts.asGrid() ? createLayout(order.groups, base, end, rows.clientWidth, number("--card-size"), number("--heading"))
      : createLayout([{ start: 0, count: order.length }], base, end, rows.clientWidth, number("--row"), 0);
    rows.style.height = `${layout.height}px`;
    parts.paged(base, end, order.length);
  }

  function draw(rebuild = false) {
    const top = view.scrollTop, bottom = top + view.clientHeight;
    const [first, last] = order.length ? layout.range(top, bottom) : [0, 0];
    for (const [position, node] of nodes) {
      if (rebuild || position < first || position >= last || node.waiting) {
        node.remove();
        nodes.delete(position);
      }
    }
    for (let position = first; position < last; position++) {
      if (!nodes.has(position)) addNode(position);
    }
    drawHeadings(layout.headings(top, bottom), rebuild);
    nodes.forEach((node, position) => markCurrent(node, position === cursor));
  }

  function drawHeadings(seen, rebuild) {
    const starts = new Set(seen.map((part) => part.first));
    for (const [start, node] of headings) {
      if (!rebuild && starts.has(start)) continue;
      node.remove();
      headings.delete(start);
    }
    for (const part of seen) {
      if (headings.has(part.first)) continue;
      const node = parts.heading(part.group, part.width);
      node.style.transform = `translate(${part.left}px, ${part.top}px)`;
      node.style.width = `${part.width - 8}px`;
      headings.set(part.first, node);
      insert(node, part.first - 0.5);
    }
  }

  function addNode(position) {
    const row = order.row(position);
    const node = row === undefined ? el("article", { class: "row waiting", "aria-busy": "true", "aria-label": "Loading" }) : parts.build(row, position);
    node.waiting = row === undefined;
    node.setAttribute("aria-posinset", position + 1);
    node.setAttribute("aria-setsize", order.length);
    const { left, top, width, height } = layout.box(position);
    node.style.transform = `translate(${left}px, ${top}px)`;
    if (width !== null) {
      node.style.width = `${width - 8}px`;
      node.style.height = `${height - 8}px`;
    }
    node.addEventListener("mousedown", () => moveTo(position, { scroll: false }), { capture: true });
    nodes.set(position, node);
    insert(node, position);
  }

  // Screen readers follow the order of the document: insert before the next existing element.
  function insert(node, place) {
    node.place = place;
    const after = [...rows.children].find((other) => other.place > place);
    rows.insertBefore(node, after ?? null);
  }

  function markCurrent(node, current) {
    node.classList.toggle("current", current);
    node.tabIndex = current ? 0 : -1;
    if (current) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
    for (const button of node.querySelectorAll("button")) button.tabIndex = current ? 0 : -1;
  }

  function inSight() {
    const { top, height } = layout.box(cursor);
    return order.length > 0 && top + height > view.scrollTop && top < view.scrollTop + view.clientHeight;
  }

  // In the list, also keep the images before and after the current one visible, if three fit.
  function scrollToCursor() {
    if (!order.length) return;
    const box = layout.box(cursor);
    const margin = view.clientHeight >= 3 * layout.margin ? layout.margin : 0;
    const top = layout.lead(cursor) - margin, bottom = box.top + box.height + margin;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
  }

  function moveTo(position, { scroll = true, focus = true } = {}) {
    if (!order.length) return;
    cursor = Math.max(0, Math.min(order.length - 1, position));
    if (Math.floor(cursor / LARGEST_PAGE) * LARGEST_PAGE !== base) {
      measure();
      draw(true);
    }
    if (scroll) scrollToCursor();
    draw();
    if (focus && !document.querySelector("dialog[open]")) nodes.get(cursor)?.focus({ preventScroll: true });
    parts.moved();
  }

  // Show these images, with the cursor at a position.
  function show(newOrder, position, { focus = false } = {}) {
    order = newOrder;
    cursor = Math.max(0, Math.min(order.length - 1, position));
    measure();
    scrollToCursor();
    draw(true);
    moveTo(cursor, { focus });
  }

  // Keep what is shown, but draw it again: after a decision, or when rows have come from the server.
  function redraw() {
    const focused = rows.contains(document.activeElement);
    draw(true);
    if (focused && !document.querySelector("dialog[open]")) nodes.get(cursor)?.focus({ preventScroll: true });
    parts.moved();
  }

  view.addEventListener("scroll", () => draw(), { passive: true });
  new ResizeObserver(() => {
    const seen = inSight();
    measure();
    if (seen) scrollToCursor();
    draw(true);
  }).observe(view);
  return {
    show, moveTo, inSight, redraw, rows,
    each: (change) => nodes.forEach((node, position) => change(node, order.row(position), position)),
    order: () => order,
    layout: () => layout,
    position: () => cursor,
    step: (right, down) => layout.step(cursor, right, down),
    move: (step) => moveTo(cursor + step),
    page: () => Math.max(1, Math.floor(view.clientHeight / layout.box(cursor).height) - 1),
    end: () => order.length - 1,
    current: () => order.row(cursor),
    next: () => Math.min(order.length - 1, cursor + 1),
    at: (x, y) => {
      const edge = rows.getBoundingClientRect();
      return { x: x - edge.left, y: y - edge.top };
    },
  };
}
