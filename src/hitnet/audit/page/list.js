// The list: only the visible rows are in the document, however long the list is.
"use strict";

const OVERSCAN = 3;
const HIT_RADIUS = 0.1;
const MISS_RADIUS = 0.9;
const FARTHEST = 2;
const SMALL_IMAGE = 48; // pixels; larger images are photographs

const $ = (selector) => document.querySelector(selector);

// Create an element. Children are elements or text; text is never parsed as HTML.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A name from the data, isolated so that right-to-left names do not move their neighbours.
function nameOf(text, extra = "") {
  return el("span", { class: `name ${extra}`, dir: "auto", title: text }, text.trim() === "" ? "(blank)" : text);
}

// Thumbnails are on sheets, which are decoded when they are first needed.
function createThumbs(group, spec) {
  const sheets = new Map();
  function sheet(number) {
    if (!sheets.has(number)) {
      const image = new Image();
      image.src = `data:image/webp;base64,${$(`#sheet-${group}-${number}`).textContent}`;
      sheets.set(number, image);
    }
    return sheets.get(number);
  }
  function canvas(index, label) {
    const node = el("canvas", { width: spec.width, height: spec.height, role: "img", "aria-label": label });
    const image = sheet(Math.floor(index / spec.sheet));
    const cell = index % spec.sheet;
    const x = (cell % spec.columns) * spec.cell_width;
    const y = Math.floor(cell / spec.columns) * spec.cell_height;
    const draw = () => node.getContext("2d").drawImage(image, x, y, spec.width, spec.height, 0, 0, spec.width, spec.height);
    if (image.complete) draw();
    else image.addEventListener("load", draw, { once: true });
    node.classList.toggle("wide", spec.width > spec.height);
    node.classList.toggle("small", Math.max(spec.width, spec.height) <= SMALL_IMAGE);
    return node;
  }
  return spec ? { canvas } : null;
}

function createList(parts) {
  const view = $("#list"), rows = $("#rows");
  const nodes = new Map(); // position in the order → element
  let order = [], cursor = 0, height = 1;

  function measure() {
    height = parseFloat(getComputedStyle(view).getPropertyValue("--row"));
    rows.style.height = `${order.length * height}px`;
  }

  function draw(rebuild = false) {
    const first = Math.max(0, Math.floor(view.scrollTop / height) - OVERSCAN);
    const last = Math.min(order.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + OVERSCAN);
    for (const [position, node] of nodes) {
      if (rebuild || position < first || position >= last) {
        node.remove();
        nodes.delete(position);
      }
    }
    for (let position = first; position < last; position++) {
      if (!nodes.has(position)) addRow(position);
    }
    nodes.forEach((node, position) => markCurrent(node, position === cursor));
  }

  function addRow(position) {
    const node = parts.build(order[position]);
    node.setAttribute("aria-posinset", position + 1);
    node.setAttribute("aria-setsize", order.length);
    node.style.transform = `translateY(${position * height}px)`;
    node.addEventListener("mousedown", () => moveTo(position, { scroll: false }), { capture: true });
    nodes.set(position, node);
    // Screen readers follow the order of the document: insert the row before the next existing one.
    const after = [...nodes.keys()].filter((other) => other > position).sort((a, b) => a - b)[0];
    rows.insertBefore(node, after === undefined ? null : nodes.get(after));
  }

  function markCurrent(node, current) {
    node.classList.toggle("current", current);
    node.tabIndex = current ? 0 : -1;
    if (current) node.setAttribute("aria-current", "true");
    else node.removeAttribute("aria-current");
    for (const button of node.querySelectorAll("button")) button.tabIndex = current ? 0 : -1;
  }

  function inSight() {
    const top = cursor * height;
    return top + height > view.scrollTop && top < view.scrollTop + view.clientHeight;
  }

  // Also keep the rows before and after the current one visible, if three rows fit.
  function scrollToCursor() {
    const margin = view.clientHeight >= 3 * height ? height : 0;
    const top = cursor * height - margin, bottom = (cursor + 1) * height + margin;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
  }

  function moveTo(position, { scroll = true, focus = true } = {}) {
    if (!order.length) return;
    cursor = Math.max(0, Math.min(order.length - 1, position));
    if (scroll) scrollToCursor();
    draw();
    if (focus && !document.querySelector("dialog[open]")) nodes.get(cursor)?.focus({ preventScroll: true });
    parts.moved(order[cursor]);
  }

  // Show these rows, and move the cursor to `row` if it is among them.
  function show(newOrder, row, { focus = false } = {}) {
    order = newOrder;
    measure();
    cursor = Math.max(0, order.indexOf(row));
    scrollToCursor();
    draw(true);
    moveTo(cursor, { focus });
  }

  view.addEventListener("scroll", () => draw(), { passive: true });
  new ResizeObserver(() => { measure(); draw(true); }).observe(view);
  return {
    show, moveTo, inSight,
    move: (step) => moveTo(cursor + step),
    page: () => Math.max(1, Math.floor(view.clientHeight / height) - 1),
    end: () => order.length - 1,
    current: () => order[cursor],
    next: () => order[cursor + 1] ?? order[cursor],
  };
}
