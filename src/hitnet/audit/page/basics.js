// Small parts that all others use: elements, names, numbers, decisions in words, thumbnails.
"use strict";

const RETRIES = 5;
const SMALL_IMAGE = 48; // pixels; larger images are photographs
const DECISIONS = ["keep", "relabel", "drop", "neither", "unsure"];
const DECIDED = { keep: "kept", relabel: "relabelled", drop: "dropped", neither: "neither fits", unsure: "unsure", none: "taken back" };

const $ = (selector) => document.querySelector(selector);
const count = (n) => new Intl.NumberFormat("en").format(n);
const roughly = (n) => count(n < 10 ? Math.round(n * 10) / 10 : Math.round(n));
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
const decidedText = (decision, label) => `${DECIDED[decision] ?? decision}${label ? ` to ${label}` : ""}`;

// How many of these labels are wrong, by their scores.
const expectedErrors = (audit, rows) => rows.reduce((sum, row) => sum + 1 - audit.score[row], 0);

function tally(words) {
  const numbers = {};
  for (const word of words) numbers[word] = (numbers[word] ?? 0) + 1;
  return numbers;
}

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

// What a reload of this page keeps, such as filters; another page of the same audit has its own.
function createMemory(key) {
  const read = () => { try { return JSON.parse(sessionStorage.getItem(key)) ?? {}; } catch { return {}; } };
  const keep = (values) => { try { sessionStorage.setItem(key, JSON.stringify({ ...read(), ...values })); } catch { /* without storage, a reload begins anew */ } };
  return { read, keep };
}

// A name from the data, isolated so that right-to-left names do not move their neighbours.
function nameOf(text, extra = "") {
  return el("span", { class: `name ${extra}`, dir: "auto", title: text }, text.trim() === "" ? "(blank)" : text);
}

// Thumbnails: `of` an image by its id, `typical` of a class, `original` as large as there is one.
function createThumbs(audit) {
  const shape = Math.max(...(audit.size ?? [Infinity])) <= SMALL_IMAGE ? "small" : "";
  // While the server lists the files of a very large set, pictures are asked for again.
  const again = ({ target }) => {
    target.tries = (target.tries ?? 0) + 1;
    if (audit.server && target.isConnected && target.tries <= RETRIES) setTimeout(() => { target.src = target.getAttribute("src"); }, 1000 * target.tries);
  };
  const picture = (src, label) => el("img", { class: `thumb ${shape}`, src, alt: label, decoding: "async", draggable: "false", onerror: again });
  if (audit.server) {
    const from = (kind) => (number, label) => picture(`/${kind}/${number}`, label);
    return { of: from("thumb"), original: from("image"), typical: from("typical") };
  }
  const held = (pictures) => (number, label) => (pictures[number] ? picture(`data:image/webp;base64,${pictures[number]}`, label) : null);
  return { of: held(audit.thumbs), original: held(audit.thumbs), typical: audit.prototypes.length ? held(audit.prototypes) : null };
}
