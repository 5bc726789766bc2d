'use strict';
const at = (id) => document.getElementById(id);
const [counts, verdict, rows, refusals] = ['counts', 'verdict', 'events', 'refusals'].map(at);
let since = '';
let last = 0;
let refused = -1;

/** An element with a text, never with markup. */
function element(name, text = '', children = []) {
  const made = document.createElement(name);
  made.textContent = text;
  made.append(...children);
  return made;
}

function cell(...children) {
  return element('td', '', children);
}

function titleOf({ kind, event_id, amount, currency }) {
  const money = amount === null ? '' : ` of ${amount} ${currency}`;
  return `${kind ?? 'event'} ${event_id ?? 'without an id'}${money}`;
}

function rowOf(event) {
  const differs = event.content_differs ? ', with other content' : '';
  const of = event.verdict === 'duplicate' ? ` of ${event.first_verdict}${differs}` : '';
  const faults = (event.details || []).map(({ field, detail }) =>
    element('div', `${field || 'event'}: ${detail}`),
  );
  const content = element('details', '', [
    element('summary', titleOf(event)),
    element(
      'pre',
      event.event === null ? `${event.event_bytes} bytes, not listed` : JSON.stringify(event.event, null, 2),
    ),
  ]);
  const row = element('tr', '', [
    cell(element('span', String(event.no))),
    cell(element('span', event.verdict + of), element('div', event.reason || event.first_reason || '')),
    cell(content, element('small', `${event.connection_id}, ${event.received_at}`)),
    cell(...faults, element('div', event.remedy || '')),
  ]);
  row.className = event.verdict;
  return row;
}

async function read(path) {
  const response = await fetch(path);
  return response.json();
}

async function show() {
  const asked = verdict.value;
  const filter = asked === '' ? '' : `&verdict=${asked}`;
  const list = await read(`/try/events?limit=200&after=${last}${filter}`);
  if (verdict.value !== asked) return;
  if (list.since !== since) {
    // The events were forgotten, or another intake has this address now.
    const isKnown = since !== '';
    since = list.since;
    rows.replaceChildren();
    refused = -1;
    if (isKnown && last > 0) {
      last = 0;
      return show();
    }
  }
  last = list.last;
  rows.prepend(...list.events.reverse().map(rowOf));
  while (rows.rows.length > 200) rows.deleteRow(-1);
  const { accepted, rejected, skipped, duplicate, refused_requests } = list.counts;
  const text = [
    [accepted, 'accepted'],
    [rejected, 'rejected'],
    [skipped, 'skipped'],
    [duplicate, 'duplicate'],
    [refused_requests, 'requests refused'],
  ]
    .map(([count, name]) => `${count.toLocaleString('en')} ${name}`)
    .join(', ');
  if (counts.textContent !== text) counts.textContent = text;
  if (refused_requests !== refused) {
    const { refusals: found } = await read('/try/refusals');
    refusals.replaceChildren(
      ...found
        .reverse()
        .slice(0, 200)
        .map((each) => element('li', `${each.status} ${each.message}`)),
    );
    refused = refused_requests;
  }
}

/** One question at a time. */
async function follow() {
  try {
    if (!document.hidden) await show();
  } catch {
    counts.textContent = 'The intake does not answer.';
  }
  setTimeout(follow, 1_000);
}

verdict.addEventListener('change', () => {
  last = 0;
  rows.replaceChildren();
});
at('reset').addEventListener('click', () => fetch('/try/reset', { method: 'POST' }));
follow();
