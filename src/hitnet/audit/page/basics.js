// Small parts that all others use: elements, names, numbers, thumbnails.
"use strict";

const RETRIES = 5;
const SMALL_IMAGE = 48; // pixels; larger images are photographs

const $ = (selector) => document.querySelector(selector);
const count = (n) => new Intl.NumberFormat("en").format(n);
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

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
function createSheet(group, spec) {
  if (!spec) return null;
  const sheets = new Map();
  function sheet(number) {
    if (!sheets.has(number)) {
      const image = new Image();
      image.src = `data:image/webp;base64,${$(`#sheet-${group}-${number}`).textContent}`;
      sheets.set(number, image);
    }
    return sheets.get(number);
  }
  return (index, label) => {
    const node = el("canvas", { class: "thumb", width: spec.width, height: spec.height, role: "img", "aria-label": label });
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
  };
}

// Thumbnails of the page itself: `of` an image by its id, `typical` of a class, `original` as large as there is one.
function createThumbs(audit) {
  const [images, neighbours, prototypes] = ["images", "neighbours", "prototypes"].map((group) => createSheet(group, audit.tiles[group]));
  const of = (id, label) => (audit.rowOf.has(id) ? images(audit.rowOf.get(id), label)
    : audit.neighbourOf.has(id) ? neighbours(audit.neighbourOf.get(id), label) : null);
  return { of, original: of, typical: prototypes };
}

// From the server, pictures are loaded when they are needed.
function createRemoteThumbs() {
  // While the server lists the files of a very large set, pictures are asked for again.
  const again = ({ target }) => {
    target.tries = (target.tries ?? 0) + 1;
    if (target.isConnected && target.tries <= RETRIES) setTimeout(() => { target.src = target.getAttribute("src"); }, 1000 * target.tries);
  };
  const picture = (kind) => (number, label) => el("img", { class: "thumb", src: `/${kind}/${number}`, alt: label, decoding: "async", draggable: "false", onerror: again });
  return { of: picture("thumb"), original: picture("image"), typical: picture("typical") };
}
