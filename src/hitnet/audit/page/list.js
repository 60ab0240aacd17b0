// The list: only the rows in sight are in the page, however long the list is.
"use strict";

const OVERSCAN = 3;
const HIT_RADIUS = 0.1;
const MISS_RADIUS = 0.9;
const FARTHEST = 2;

const $ = (selector) => document.querySelector(selector);

// An element; children are elements or text, and text is only ever text.
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

// A name from the data: isolated, so that right-to-left names leave their neighbours in place.
function nameOf(text, extra = "") {
  return el("span", { class: `name ${extra}`, dir: "auto", title: text }, text.trim() === "" ? "(blank)" : text);
}

// Thumbnails lie side by side on sheets, which are decoded when first needed.
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
    const place = index % spec.sheet;
    const x = (place % spec.columns) * spec.cell_width;
    const y = Math.floor(place / spec.columns) * spec.cell_height;
    const draw = () => node.getContext("2d").drawImage(image, x, y, spec.width, spec.height, 0, 0, spec.width, spec.height);
    if (image.complete) draw();
    else image.addEventListener("load", draw, { once: true });
    node.classList.toggle("wide", spec.width > spec.height);
    node.classList.toggle("small", Math.max(spec.width, spec.height) <= 48);
    return node;
  }
  return spec ? { canvas } : null;
}

function createList(parts) {
  const view = $("#list"), rows = $("#rows");
  const nodes = new Map(); // place in the order → element
  let order = [], cursor = 0, height = 1;

  function measure() {
    height = parseFloat(getComputedStyle(view).getPropertyValue("--row"));
    rows.style.height = `${order.length * height}px`;
  }

  function draw(rebuild = false) {
    const first = Math.max(0, Math.floor(view.scrollTop / height) - OVERSCAN);
    const last = Math.min(order.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + OVERSCAN);
    for (const [place, node] of nodes) {
      if (rebuild || place < first || place >= last) {
        node.remove();
        nodes.delete(place);
      }
    }
    for (let place = first; place < last; place++) {
      if (!nodes.has(place)) addRow(place);
    }
    nodes.forEach((node, place) => markCurrent(node, place === cursor));
  }

  function addRow(place) {
    const node = parts.build(order[place]);
    node.setAttribute("aria-posinset", place + 1);
    node.setAttribute("aria-setsize", order.length);
    node.style.transform = `translateY(${place * height}px)`;
    node.addEventListener("mousedown", () => moveTo(place, { scroll: false }), { capture: true });
    nodes.set(place, node);
    // Reading order follows the DOM: put the row before the next one that is there.
    const after = [...nodes.keys()].filter((other) => other > place).sort((a, b) => a - b)[0];
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

  // Keep the rows before and after the current one in sight as well, where the window has room for three.
  function scrollToCursor() {
    const margin = view.clientHeight >= 3 * height ? height : 0;
    const top = cursor * height - margin, bottom = (cursor + 1) * height + margin;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (bottom > view.scrollTop + view.clientHeight) view.scrollTop = bottom - view.clientHeight;
  }

  function moveTo(place, { scroll = true, focus = true } = {}) {
    if (!order.length) return;
    cursor = Math.max(0, Math.min(order.length - 1, place));
    if (scroll) scrollToCursor();
    draw();
    if (focus && !document.querySelector("dialog[open]")) nodes.get(cursor)?.focus({ preventScroll: true });
    parts.moved(order[cursor]);
  }

  // Show these rows; the cursor goes to `row` where it is among them.
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
