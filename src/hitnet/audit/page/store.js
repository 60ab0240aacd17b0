// Decisions of the page without a server: one record per image, with undo, stored in the browser, written and read as CSV.
"use strict";

const COLUMNS = ["id", "path", "given", "decision", "label"];
const DECISIONS = ["keep", "relabel", "drop", "neither", "unsure"];

function createStore(audit, onTrouble) {
  const key = `hitnet-audit:${audit.fingerprint}`;
  const records = new Map(); // id → {path, given, decision, label}
  const steps = []; // {name, entries: [[id, record or undefined]], before: Map of id → record, undone}

  function put(id, record) {
    if (record) records.set(id, record);
    else records.delete(id);
  }

  function save() {
    try {
      localStorage.setItem(key, JSON.stringify([...records]));
    } catch {
      onTrouble("This browser does not store your decisions for this page. Export them before you close it.");
    }
  }

  function load() {
    records.clear();
    for (const entry of storedEntries(key)) {
      if (Array.isArray(entry) && recordProblem(audit, entry[0], entry[1]) === null) records.set(entry[0], entry[1]);
    }
  }

  // Change the decisions on several images in one step, which a single undo reverts.
  function change(entries) {
    steps.push({ name: steps.length, time: new Date().toISOString(), entries, before: new Map(entries.map(([id]) => [id, records.get(id)])), undone: false });
    for (const [id, record] of entries) put(id, record);
    save();
  }

  // Undo a step, or bring it back: what counts for each of its images is the last step that stands.
  function undo(name) {
    const step = name === undefined ? steps.findLast((each) => !each.undone) : steps[name];
    if (!step) return null;
    step.undone = !step.undone;
    const ids = step.entries.map(([id]) => id);
    for (const id of ids) put(id, standing(id));
    save();
    return { images: ids.length, first: ids[0] };
  }

  function standing(id) {
    const touching = steps.filter((step) => step.before.has(id));
    const last = touching.findLast((step) => !step.undone);
    return last ? last.entries.find(([other]) => other === id)[1] : touching[0].before.get(id);
  }

  function history() {
    return steps.map((step) => ({ step: step.name, time: step.time, reviewer: "", stands: !step.undone, images: step.entries.length, first: step.entries[0][0],
      kinds: tally(step.entries.map(([, record]) => record?.decision ?? "none")), label: step.entries[0][1]?.label ?? "" })).reverse();
  }

  function counts() {
    const here = audit.id.map((id) => records.get(id)).filter(Boolean);
    return { ...tally(here.map((record) => record.decision)), carried: records.size - here.length };
  }

  load();
  return { key, records, pending: new Set(), change, undo, load, save, history, counts, get: (id) => records.get(id), toCsv: () => toCsv(records) };
}

function tally(words) {
  const numbers = {};
  for (const word of words) numbers[word] = (numbers[word] ?? 0) + 1;
  return numbers;
}

function storedEntries(key) {
  try {
    const entries = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(entries) ? entries : [];
  } catch {
    return [];
  }
}

// A message that says what is wrong with a record, or null. Records of images that are not on this page are kept.
function recordProblem(audit, id, record) {
  if (!Number.isSafeInteger(id) || typeof record !== "object" || record === null) return "its id is not a whole number";
  if (!DECISIONS.includes(record.decision)) return `its decision “${record.decision}” is not one of ${DECISIONS.join(", ")}`;
  if (record.decision === "relabel" && !audit.classIndex.has(record.label)) return `“${record.label}” is not a class of this audit`;
  if (record.decision === "relabel" && record.label === record.given) return "it relabels to the given label; use keep instead";
  if (record.decision !== "relabel" && record.label !== "") return `only relabel takes a label, not ${record.decision}`;
  const row = audit.rowOf.get(id);
  if (row !== undefined && audit.names[audit.given[row]] !== record.given) {
    return `image ${id} is labelled “${audit.names[audit.given[row]]}” here, not “${record.given}”`;
  }
  if (row !== undefined && comparable(audit.path[row]) !== comparable(record.path)) {
    return `image ${id} is “${audit.path[row]}” here, not “${record.path}”`;
  }
  return audit.classIndex.has(record.given) ? null : `“${record.given}” is not a class of this audit`;
}

// Text areas and UTF-8 files change line ends and lone surrogates, so compare texts after the same changes.
function comparable(text) {
  return String(text).replace(/\r\n?/g, "\n").toWellFormed();
}

// Spreadsheets run text that begins with "=" and the like: it gets a ' before it, which `hitnet audit apply` and
// importing remove again. Plain numbers are harmless. The same rule is in spreadsheets.py.
const FORMULA = /^'*(?![-+]?[0-9]*[.]?[0-9]+$)[=+\-@\t\r\n]/;
const undefuse = (text) => (text.startsWith("'") && FORMULA.test(text) ? text.slice(1) : text);

function toCsv(records) {
  const quote = (text) => `"${(FORMULA.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  const lines = [...records]
    .sort(([a], [b]) => a - b)
    .map(([id, r]) => [id, quote(r.path), quote(r.given), r.decision, quote(r.label)].join(","));
  return [COLUMNS.join(","), ...lines].map((line) => `${line}\r\n`).join("");
}

// Parse RFC 4180 text to [{line, fields}]; `line` is the line on which the record begins.
function parseCsv(text) {
  const records = [];
  let fields = [], field = "", quoted = false, line = 1, begun = 1;
  const endField = () => { fields.push(field); field = ""; };
  const endRecord = () => {
    endField();
    if (fields.length > 1 || fields[0] !== "") records.push({ line: begun, fields });
    fields = [];
    begun = line;
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === "\n" || (c === "\r" && text[i + 1] !== "\n")) line++;
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') { field += c; i++; }
      else quoted = false;
    } else if (c === '"' && field === "") quoted = true;
    else if (c === ",") endField();
    else if (c === "\n") endRecord();
    else if (c === "\r") { if (text[i + 1] !== "\n") endRecord(); }
    else field += c;
  }
  if (field !== "" || fields.length) endRecord();
  return records;
}

// Read corrections as {entries, problems}. If there is any problem, import nothing.
function readCorrections(audit, text) {
  const [header, ...lines] = parseCsv(text.replace(/^\uFEFF/, ""));
  const at = COLUMNS.map((name) => (header ? header.fields.indexOf(name) : -1));
  if (at.includes(-1)) return { entries: [], problems: [`The first line must name the columns ${COLUMNS.join(",")}.`] };
  const exactName = new Map(audit.names.map((name) => [comparable(name), name]));
  const className = (text) =>
    [undefuse(text), text].find((name) => audit.classIndex.has(name)) ?? exactName.get(comparable(undefuse(text))) ?? text;
  const entries = new Map();
  const problems = [];
  for (const { line, fields } of lines) {
    const [id, path, decision] = [at[0], at[1], at[3]].map((i) => undefuse(fields[i] ?? ""));
    const [given, label] = [at[2], at[4]].map((i) => className(fields[i] ?? ""));
    const number = /^\d+$/.test(id) ? Number(id) : NaN;
    const record = { path, given, decision, label: decision === "relabel" || label !== given ? label : "" };
    const earlier = entries.get(number);
    const clash = earlier && (earlier.decision !== record.decision || earlier.label !== record.label);
    const problem = recordProblem(audit, number, record) ?? (clash ? `image ${id} has two different decisions` : null);
    if (problem) problems.push(`Line ${line}: ${problem}.`);
    else entries.set(number, record);
  }
  return { entries: [...entries], problems };
}
