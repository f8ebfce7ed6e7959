// The script of the documentation page: fetches the OpenAPI document and builds the page from it. Everything from the document
// or from an answer becomes a text node; no markup is parsed. The API key stays in its field and is in no command line.

/** JavaScript of the page, run by browsers as it stands. */
export const docsScript: string = String.raw`'use strict';
(() => {
const $ = (id) => document.getElementById(id);

/** An element with attributes; strings among the children become text nodes. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== undefined && child !== ''));
  return node;
}

/** A paragraph in which text between backquotes is code. */
function prose(text, name) {
  const parts = String(text).split('\x60');
  return el('p', { class: name }, ...parts.map((part, i) => (i % 2 ? el('code', {}, part) : part)));
}

function render(api) {
  const resolve = (node) => {
    if (!node || !node.$ref) return node || {};
    return node.$ref.slice(2).split('/').reduce((at, key) => at && at[key], api) || {};
  };

  function typeName(schema) {
    if (schema.anyOf) return schema.anyOf.map((one) => typeName(resolve(one))).join(' or ');
    if (schema.type === 'array') return 'array of ' + typeName(resolve(schema.items));
    return schema.format ? schema.type + ' (' + schema.format + ')' : schema.type || 'any';
  }

  function limits(schema) {
    const inner = schema.type === 'array' ? resolve(schema.items) : {};
    const rows = [
      ['one of', (schema.enum || inner.enum || []).join(', ')], ['default', JSON.stringify(schema.default)],
      ['at least', schema.minimum], ['above', schema.exclusiveMinimum], ['at most', schema.maximum],
      ['below', schema.exclusiveMaximum], ['shortest', schema.minLength], ['longest', schema.maxLength],
      ['fewest', schema.minItems], ['most', schema.maxItems], ['pattern', schema.pattern],
    ];
    return rows.filter(([, value]) => value !== undefined && value !== '').map((row) => row.join(' ')).join(' · ');
  }

  function fieldRow(name, given, required, above) {
    const schema = resolve(given);
    const row = el('li', {}, el('span', { class: 'name' }, name), ' ', el('span', { class: 'type' }, typeName(schema)));
    if (required) row.append(' ', el('span', { class: 'must' }, 'required'));
    const text = limits(schema);
    if (text) row.append(' ', el('span', { class: 'limits' }, text));
    const about = given.description || schema.description;
    if (about) row.append(prose(about, 'note'));
    const inner = fields(schema.type === 'array' ? resolve(schema.items) : schema, above);
    if (inner) row.append(inner);
    return row;
  }

  /** The fields of an object; above holds the objects around it, so that a recursive schema ends. */
  function fields(schema, above = []) {
    if (above.includes(schema)) return undefined;
    const path = [...above, schema];
    const required = schema.required || [];
    const rows = Object.entries(schema.properties || {}).map(([name, field]) =>
      fieldRow(name, field, required.includes(name), path));
    if (schema.additionalProperties === true) rows.push(el('li', {}, el('span', { class: 'type' }, 'any other field')));
    else if (schema.additionalProperties) rows.push(fieldRow('(any key)', schema.additionalProperties, false, path));
    return rows.length ? el('ul', { class: 'fields' }, ...rows) : undefined;
  }

  function sample(given) {
    const schema = resolve(given);
    if (schema.examples) return schema.examples[0];
    if (schema.default !== undefined) return schema.default;
    if (schema.enum) return schema.enum[0];
    if (schema.type === 'array') return [];
    if (schema.type === 'object') {
      const required = schema.required || [];
      const shown = Object.entries(schema.properties || {}).filter(([name, field]) =>
        required.includes(name) || resolve(field).examples);
      return Object.fromEntries(shown.map(([name, field]) => [name, sample(field)]));
    }
    return { string: '', integer: 0, number: 0, boolean: false }[schema.type] ?? null;
  }

  function answers(operation) {
    return el('div', { class: 'answers' }, ...Object.entries(operation.responses).map(([status, given]) => {
      const response = resolve(given);
      const head = el('summary', {}, el('span', { class: 'status' }, status), response.description || '');
      const box = el('details', {}, head);
      for (const [type, media] of Object.entries(response.content || {})) {
        const schema = resolve(media.schema);
        box.append(el('p', { class: 'note type' }, type + ', ' + typeName(schema)), fields(schema) || '');
      }
      const headers = Object.entries(response.headers || {}).map(([name, header]) => {
        const { description, schema } = resolve(header);
        return fieldRow(name, { ...schema, description }, false, []);
      });
      if (headers.length) box.append(el('p', { class: 'note type' }, 'Headers'), el('ul', { class: 'fields' }, ...headers));
      return box;
    }));
  }

  const base = new URL((api.servers && api.servers[0] && api.servers[0].url) || '/', location.href);
  const shellQuoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const headerFor = { bearer: 'Authorization: Bearer ', apiKey: 'x-api-key: ' };

  /** The form that sends a request, and the command line that does the same. */
  function tryIt(path, method, operation) {
    const inPath = (operation.parameters || []).filter((one) => one.in === 'path');
    const inputs = inPath.map(({ name }) => el('input', { name, required: '', autocomplete: 'off', placeholder: name }));
    const media = operation.requestBody && operation.requestBody.content['application/json'];
    const body = media && el('textarea', { spellcheck: 'false' });
    if (body) body.value = JSON.stringify(sample(media.schema), null, 2);
    const scheme = Object.keys((operation.security || [])[0] || {})[0];

    const url = () => {
      let filled = path;
      inPath.forEach(({ name }, i) => {
        const value = inputs[i].value;
        if (value) filled = filled.replace('{' + name + '}', () => value.split('/').map(encodeURIComponent).join('/'));
      });
      return decodeBraces(new URL(filled.replace(/^\//, ''), base).href);
    };
    const decodeBraces = (text) => text.replaceAll('%7B', '{').replaceAll('%7D', '}');
    const command = el('pre', { tabindex: '0', 'aria-label': 'curl command' });
    const showCommand = () => {
      const parts = ['curl ' + shellQuoted(url())];
      if (scheme) parts.push('-H "' + headerFor[scheme] + '$HEADRACE_API_KEY"');
      if (body) parts.push("-H 'content-type: application/json'", '-d ' + shellQuoted(compact(body.value)));
      command.textContent = parts.join(' ');
    };
    const send = el('button', { class: 'main', type: 'submit' }, 'Send');
    const stop = el('button', { type: 'button', disabled: '' }, 'Stop');
    const outcome = el('span', { class: 'outcome', role: 'status' });
    const answer = el('pre', { tabindex: '0', 'aria-label': 'Answer', hidden: '' });
    const labelled = (text, input) => el('label', {}, text, input);
    const form = el('form', {}, ...inputs.map((input, i) => labelled(inPath[i].name, input)),
      body ? labelled('Request body', body) : '', el('div', { class: 'actions' }, send, stop, outcome), answer);
    form.addEventListener('input', showCommand);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const headers = {};
      const key = $('key').value.trim();
      if (key) headers.authorization = 'Bearer ' + key;
      if (body) headers['content-type'] = 'application/json';
      run(url(), { method: method.toUpperCase(), headers, body: body && body.value }, { send, stop, outcome, answer });
    });
    showCommand();
    return [el('h3', {}, 'Command line'), copyable(command), el('h3', {}, 'Try it'), form];
  }

  function endpoint(path, method, operation) {
    const box = el('details', { class: 'endpoint', id: operation.operationId }, el('summary', {},
      el('span', { class: 'method ' + method }, method.toUpperCase()), el('span', { class: 'path' }, path),
      el('span', { class: 'gist' }, operation.summary || ''),
      (operation.security || []).length ? el('span', { class: 'badge' }, 'needs a key') : ''));
    const fill = () => {
      const inside = el('div', { class: 'inside' });
      if (operation.description) inside.append(prose(operation.description));
      const parameters = (operation.parameters || []).map((one) =>
        fieldRow(one.name, { ...one.schema, description: ['In the ' + one.in + '.', one.description || ''].join(' ') }, one.required, []));
      if (parameters.length) inside.append(el('h3', {}, 'Parameters'), el('ul', { class: 'fields' }, ...parameters));
      const media = operation.requestBody && operation.requestBody.content['application/json'];
      const bodyFields = media && fields(resolve(media.schema));
      if (bodyFields) inside.append(el('h3', {}, 'Request body'), bodyFields);
      inside.append(...tryIt(path, method, operation), el('h3', {}, 'Answers'), answers(operation));
      box.append(inside);
    };
    box.addEventListener('toggle', fill, { once: true });
    const link = el('a', { href: '#' + encodeURIComponent(operation.operationId) }, path);
    const words = [method, path, operation.summary, operation.description].join(' ').toLowerCase();
    return { box, link, words };
  }

  function errorTable(table) {
    const cells = (tag, values) => el('tr', {}, ...values.map((value) => el(tag, {}, value)));
    const rows = Object.entries(table).map(([code, { status, detail, retryable }]) =>
      cells('td', [el('code', {}, code), String(status), detail.replace('{}', '…'), retryable ? 'yes' : 'no']));
    const head = el('thead', {}, cells('th', ['Code', 'Status', 'Sentence', 'Worth a retry']));
    return [el('h2', {}, 'Errors'), el('div', { class: 'scroll', tabindex: '0' }, el('table', {}, head, el('tbody', {}, ...rows)))];
  }

  $('version').textContent = api.info.version;
  $('endpoints').replaceChildren(prose(api.info.description || '', 'lead'));
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ tag: operation.tags[0], ...endpoint(path, method, operation) })));
  const groups = api.tags.map(({ name }) => {
    const members = operations.filter(({ tag }) => tag === name);
    const section = el('section', {}, el('h2', {}, name), ...members.map(({ box }) => box));
    const heading = el('h2', {}, name);
    $('endpoints').append(section);
    $('nav').append(heading, ...members.map(({ link }) => link));
    return { section, heading, members };
  });
  if (api['x-headrace-errors']) $('endpoints').append(...errorTable(api['x-headrace-errors']));

  $('search').addEventListener('input', () => {
    const wanted = $('search').value.toLowerCase().split(/\s+/);
    let found = 0;
    for (const { section, heading, members } of groups) {
      for (const { box, link, words } of members) {
        box.hidden = link.hidden = !wanted.every((word) => words.includes(word));
        if (!box.hidden) found++;
      }
      section.hidden = heading.hidden = members.every(({ box }) => box.hidden);
    }
    $('found').textContent = found === 1 ? '1 endpoint' : found + ' endpoints';
  });
  const openTarget = () => {
    const target = $(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.matches('.endpoint')) return;
    target.open = true;
    target.scrollIntoView();
    target.querySelector('summary').focus({ preventScroll: true });
  };
  addEventListener('hashchange', openTarget);
  openTarget();
}

function compact(text) {
  try { return JSON.stringify(JSON.parse(text)); } catch { return text; }
}

function copyable(pre) {
  const button = el('button', { type: 'button', 'aria-live': 'polite' }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      button.textContent = 'Copied';
    } catch {
      // Pages over plain http have no clipboard: select the text, so that one key press copies it.
      getSelection().selectAllChildren(pre);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  return el('div', { class: 'copyable' }, pre, button);
}

/** Sends one request and shows the answer as it arrives. */
async function run(url, init, { send, stop, outcome, answer }) {
  const controller = new AbortController();
  const started = performance.now();
  stop.onclick = () => controller.abort();
  send.disabled = !(stop.disabled = false);
  answer.hidden = true;
  answer.textContent = '';
  outcome.textContent = 'Waiting…';
  outcome.classList.remove('bad');
  try {
    const response = await fetch(url, { ...init, signal: controller.signal });
    const says = response.status + ' ' + response.statusText + ' · ';
    outcome.classList.toggle('bad', !response.ok);
    outcome.textContent = says + 'receiving…';
    answer.hidden = false;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const shown = answer.appendChild(document.createTextNode(''));
    for (let part = await reader.read(); !part.done; part = await reader.read()) shown.appendData(part.value);
    if ((response.headers.get('content-type') || '').includes('json')) {
      try { shown.data = JSON.stringify(JSON.parse(shown.data), null, 2); } catch { /* shown as it came */ }
    }
    const id = response.headers.get('x-request-id');
    outcome.textContent = says + Math.round(performance.now() - started) + ' ms' + (id ? ' · ' + id : '');
  } catch (error) {
    outcome.classList.add('bad');
    outcome.textContent = controller.signal.aborted ? 'Stopped' : 'Failed: ' + error.message;
  } finally {
    send.disabled = !(stop.disabled = true);
  }
}

const source = document.body.dataset.openapi;
fetch(source)
  .then((response) => (response.ok ? response.json() : Promise.reject(new Error('status ' + response.status))))
  .then(render)
  .catch((error) => $('endpoints').replaceChildren(el('p', { class: 'bad', role: 'alert' }, 'Cannot read ' + source + ': ' + error.message)));
})();
`;
