// Which images are shown, and in which order: from the rows that the page itself holds.
"use strict";

function createSource(audit, store) {
  function passes(row, { given, suggested, either, flags, state, min, max, text }) {
    const record = store.get(audit.id[row]);
    if (given !== null && audit.given[row] !== given) return false;
    if (suggested !== null && audit.suggested[row] !== suggested) return false;
    if (either !== null && audit.given[row] !== either && audit.suggested[row] !== either) return false;
    if (flags.length && !flags.includes(audit.flag[row])) return false;
    if (min !== null && audit.score[row] < min) return false;
    if (max !== null && audit.score[row] > max) return false;
    if (state === "undecided" && record) return false;
    if (state === "decided" && !record) return false;
    if (DECISIONS.includes(state) && record?.decision !== state) return false;
    return text === "" || audit.searchable[row].includes(text) || String(audit.id[row]) === text.replace(/^#/, "");
  }

  // The order of a query, and where the image `id` stands in it.
  function order(chosen, grouped, id) {
    let rows = Array.from(audit.id.keys()).filter((row) => passes(row, chosen));
    if (chosen.sort === "file") rows.sort((a, b) => (audit.path[a] < audit.path[b] ? -1 : audit.path[a] > audit.path[b] ? 1 : a - b));
    const groups = grouped ? groupRows(audit, store, rows) : [];
    if (grouped) rows = groups.flatMap((group) => group.rows);
    const place = audit.rowOf.get(id);
    return { length: rows.length, groups, row: (position) => rows[position], parts: (positions) => [positions], find: (row) => rows.indexOf(row), position: rows.indexOf(place) };
  }

  return { order, follows: () => true, sorts: ["doubt", "file"] };
}

// Pairs of different classes first, the most frequent first; within a pair, the order stays.
function groupRows(audit, store, rows) {
  const pairs = new Map();
  for (const row of rows) {
    const key = audit.given[row] * audit.names.length + audit.suggested[row];
    if (!pairs.has(key)) pairs.set(key, { given: audit.given[row], suggested: audit.suggested[row], rows: [] });
    pairs.get(key).rows.push(row);
  }
  const same = (group) => group.given === group.suggested;
  const groups = [...pairs].sort(([a, one], [b, other]) => same(one) - same(other) || other.rows.length - one.rows.length || a - b).map(([, group]) => group);
  let start = 0;
  for (const group of groups) {
    Object.assign(group, { start, count: group.rows.length, undecided: group.rows.filter((row) => !store.get(audit.id[row])).length });
    start += group.count;
  }
  return groups;
}
