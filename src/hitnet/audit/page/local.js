// The page without a server: it answers the same questions from the rows that it holds, and records steps in the browser.
// It only records: whether decisions are valid, and what they come to, is decided by `hitnet apply` or `hitnet review`.
"use strict";

function createLocalServer(audit, { onTrouble, onChange }) {
  const key = `hitnet-audit:${audit.fingerprint}`;
  let steps = [], records = new Map(), inForce = new Set(), changes = 0;

  function load() {
    let stored = [];
    try { stored = JSON.parse(localStorage.getItem(key) ?? "[]"); } catch { /* nothing that can be read is stored */ }
    steps = Array.isArray(stored) ? stored.filter(isStep) : [];
    replay();
  }

  function save() {
    try {
      localStorage.setItem(key, JSON.stringify(steps));
    } catch {
      onTrouble("This browser does not store your decisions for this page. Export them before you close it.");
    }
  }

  function replay() {
    [inForce, records] = resultOf(steps, (change) => isHere(audit, change));
    changes += 1;
  }

  function add(what) {
    const name = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    const step = { step: name, time: new Date().toISOString(), reviewer: "report.html", ...what };
    steps.push(step);
    replay();
    save();
    return answer(step);
  }

  function answer(step) {
    let about = step;
    while (about.undoes) about = steps.find((other) => other.step === about.undoes);
    return { images: about.changes.length, records: about.changes.map(([id]) => [id, recordOf(id)]), ...state() };
  }

  const recordOf = (id) => (records.has(id) ? { decision: records.get(id)[3], label: records.get(id)[4] } : null);

  function state() {
    const here = [...records.values()].filter(([id]) => audit.rowOf.has(id));
    const counts = { ...tally(here.map(([, , , decision]) => decision)), carried: records.size - here.length };
    // Of all images, also of those that are not on this page.
    const decided = here.map(([id]) => audit.rowOf.get(id)), { expected_errors: expected, images } = audit.summary;
    return { changed: changes, counts, left: [expected - expectedErrors(audit, decided), images - decided.length], agreement: [] };
  }

  const changed = ([id, decision, label]) => {
    const row = audit.rowOf.get(id);
    return [id, audit.path[row], audit.names[audit.given[row]], decision, label];
  };

  function rows(query) {
    let order = audit.id.map((_, row) => row).filter((row) => passes(audit, row, recordOf(audit.id[row]), query));
    if (query.sort === "file") order.sort((a, b) => (audit.path[a] < audit.path[b] ? -1 : audit.path[a] > audit.path[b] ? 1 : a - b));
    const groups = query.grouped ? groupRows(audit, order, (row) => records.has(audit.id[row])) : [];
    if (query.grouped) order = groups.flatMap((group) => group.rows);
    const isHere = order.indexOf(audit.rowOf.get(query.near)), undecided = order.findIndex((row) => !records.has(audit.id[row]));
    const position = Math.max(0, isHere < 0 ? undecided : isHere);
    return { total: order.length, position, offset: 0, rows: order, columns: {}, records: order.map((row) => recordOf(audit.id[row])), groups };
  }

  function decideGroup({ query, given, suggested, decision }) {
    const group = rows({ ...query, grouped: 1 }).groups.find((each) => each.given === given && each.suggested === suggested);
    const undecided = group.rows.filter((row) => !records.has(audit.id[row]));
    const label = decision === "relabel" ? audit.names[suggested] : "";
    return add({ changes: undecided.map((row) => changed([audit.id[row], decision, label])) });
  }

  const history = () => ({ steps: steps.map((step) => ({ ...step, reviewer: "", stands: inForce.has(step.step), images: step.changes?.length ?? 0, ids: (step.changes ?? []).slice(0, 3).map(([id]) => id),
    kinds: tally((step.changes ?? []).map(([, , , decision]) => decision)), label: step.changes?.[0][4] ?? "" })).reverse() });

  function undo({ step: name }) {
    const last = steps.findLast((step) => inForce.has(step.step) && !step.undoes)?.step;
    if (!(name ?? last)) throw new Error("Nothing to undo.");
    return add({ undoes: name ?? last });
  }

  function importFile({ text }) {
    const lines = text.replace(/^\uFEFF/, "").split("\n").filter((line) => line.trim() !== "");
    const read = lines.map((line) => { try { return JSON.parse(line); } catch { return null; } });
    const problems = read.flatMap((step, i) => (isStep(step) ? [] : [`Line ${i + 1} is no decision of a review.`]));
    if (problems.length || !read.length) throw new Error([...problems, "Choose a file that this page exported. `hitnet review` also reads CSV."].join("\n"));
    return add({ changes: [...resultOf(read, () => true)[1].values()] });
  }

  window.addEventListener("storage", (event) => { // another window shows the same audit
    if (event.key !== key) return;
    load();
    onChange();
  });
  load();
  save(); // warns at once if the browser cannot store decisions
  const answers = { rows, state, steps: history, export: () => steps.map((step) => `${JSON.stringify(step)}\n`).join(""),
    decide: ({ changes: asked }) => add({ changes: asked.map(changed) }), "decide-group": decideGroup, undo, import: importFile };
  return { file: "decisions.jsonl", ask: async (name, body = {}) => answers[name](body) };
}

// Which steps stand, and what they come to: id → the change that counts. A later step undoes an earlier one.
function resultOf(steps, counts) {
  const undone = new Set(), inForce = new Set(), result = new Map();
  for (const step of [...steps].reverse()) {
    if (undone.has(step.step)) continue;
    inForce.add(step.step);
    if (step.undoes) undone.add(step.undoes);
  }
  for (const change of steps.flatMap((step) => (inForce.has(step.step) ? step.changes ?? [] : []))) {
    if (change[3] === "none") result.delete(change[0]);
    else if (counts(change)) result.set(change[0], change);
  }
  return [inForce, result];
}

// The form of a step, as decisions.jsonl has it.
function isStep(step) {
  const texts = (values) => values.every((value) => typeof value === "string");
  const isChange = (change) => Array.isArray(change) && change.length === 5 && Number.isSafeInteger(change[0]) && texts(change.slice(1)) && Object.hasOwn(DECIDED, change[3]);
  return typeof step === "object" && step !== null && texts([step.step, step.time, step.reviewer])
    && (typeof step.undoes === "string" || (Array.isArray(step.changes) && step.changes.length > 0 && step.changes.every(isChange)));
}

// A decision counts only if the image still has the label that the decision was made on.
function isHere(audit, [id, path, given]) {
  const row = audit.rowOf.get(id);
  return row === undefined || (audit.path[row] === path && audit.names[audit.given[row]] === given);
}

function passes(audit, row, record, { given, suggested, either, flags, state, lowest, highest, text }) {
  if (given !== undefined && audit.given[row] !== given) return false;
  if (suggested !== undefined && audit.suggested[row] !== suggested) return false;
  if (either !== undefined && audit.given[row] !== either && audit.suggested[row] !== either) return false;
  if (flags && !flags.includes(audit.flag[row])) return false;
  if (lowest !== undefined && audit.score[row] < lowest) return false;
  if (highest !== undefined && audit.score[row] > highest) return false;
  if (state === "undecided" && record) return false;
  if (state === "decided" && !record) return false;
  if (DECISIONS.includes(state) && record?.decision !== state) return false;
  return text === undefined || audit.path[row].toLowerCase().includes(text) || String(audit.id[row]) === text.replace(/^#/, "");
}

// As the server groups rows: a group's images are more probably wrong than right, or its suggested class is the given one.
// The groups with the most expected errors come first; within a group, the order stays.
function groupRows(audit, order, isDecided) {
  const probable = (row) => (audit.score[row] < 0.5 ? audit.suggested[row] : audit.given[row]);
  const errors = (rows) => expectedErrors(audit, rows);
  const pairs = Map.groupBy(order, (row) => audit.given[row] * audit.names.length + probable(row));
  const groups = [...pairs].map(([pair, rows]) => ({ pair, rows, given: audit.given[rows[0]], suggested: probable(rows[0]) }));
  const same = (group) => group.given === group.suggested;
  groups.sort((one, other) => same(one) - same(other) || errors(other.rows) - errors(one.rows) || one.pair - other.pair);
  let start = 0;
  for (const group of groups) {
    const undecided = group.rows.filter((row) => !isDecided(row));
    Object.assign(group, { start, count: group.rows.length, undecided: undecided.length, wrong: errors(undecided) });
    start += group.count;
  }
  return groups;
}
