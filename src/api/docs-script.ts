// The script of the documentation page: fetches the OpenAPI document and builds the page from it. Everything from the document
// or from an answer becomes a text node; no markup is parsed. The API key stays in its field and is in no command line.

/** How a program of a reader names its key; this file itself reads no environment. */
const KEY_VARIABLE = ['process', 'env', 'HEADRACE_API_KEY'].join('.');

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
    if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => typeName(resolve(one))))].join(' or ');
    if (schema.type === 'array') return 'array of ' + typeName(resolve(schema.items));
    return schema.format ? schema.type + ' (' + schema.format + ')' : schema.type || 'any';
  }

  /** The schemas that a value may have, arrays by their items. */
  function variants(schema) {
    if (schema.anyOf) return schema.anyOf.flatMap((one) => variants(resolve(one)));
    return schema.type === 'array' ? variants(resolve(schema.items || {})) : [schema];
  }

  function limits(schema) {
    const words = variants(schema).flatMap((one) => one.enum || []);
    const rows = [
      ['one of', words.join(', ')], ['such as', schema.title === 'ModelId' ? schema.examples.slice(0, 5).join(', ') : ''], ['default', JSON.stringify(schema.default)],
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
    const objects = variants(schema).filter((one) => one.properties || one.additionalProperties);
    for (const one of objects) {
      const inner = fields(one, above);
      if (!inner) continue;
      const kind = one.properties && one.properties.type && one.properties.type.const;
      // Long parts open on demand: a reader sees the members of one level first.
      const title = objects.length > 1 ? kind || one.description || one.title : undefined;
      if (title) row.append(el('details', { class: 'variant' }, el('summary', {}, el('code', {}, title), kind ? ' ' + one.description : ''), inner));
      else if (above.length > 1) row.append(el('details', { class: 'variant' }, el('summary', {}, 'Members'), inner));
      else row.append(inner);
    }
    return row;
  }

  /** The fields of an object; above holds the objects around it, so that a recursive schema ends. */
  function fields(schema, above = []) {
    if (above.includes(schema)) return undefined;
    const path = [...above, schema];
    const required = schema.required || [];
    const rows = Object.entries(schema.properties || {}).map(([name, field]) =>
      fieldRow(name, field, required.includes(name), path));
    if (schema.additionalProperties === true && above.length === 0) rows.push(el('li', {}, el('span', { class: 'type' }, 'and other members')));
    else if (typeof schema.additionalProperties === 'object') rows.push(fieldRow('(any key)', schema.additionalProperties, false, path));
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

  const EXAMPLE_PATHS = { model: 'ModelId', full_path: 'v1/embeddings' };
  const modelIds = ((api.components.schemas.ModelId || {}).examples) || [];

  /** Code that sends the request: by curl, and by the official SDKs where they have a method for it. */
  function snippets(url, method, scheme, body, sdk) {
    const parts = ['curl ' + shellQuoted(url)];
    if (method !== 'get' && !body) parts.push('-X ' + method.toUpperCase());
    if (scheme) parts.push('-H "' + headerFor[scheme] + '$HEADRACE_API_KEY"');
    if (body) parts.push("-H 'content-type: application/json'", '-d ' + shellQuoted(compact(body)));
    const found = [['curl', parts.join(' ')]];
    let value;
    try { value = JSON.parse(body); } catch { return found; }
    if (!sdk || !value) return found;
    const root = base.href.replace(/\/$/, '');
    const baseUrl = JSON.stringify(sdk.package === 'openai' ? root + '/v1' : root);
    const name = { openai: 'OpenAI', anthropic: 'Anthropic' }[sdk.package];
    const streams = value.stream === true;
    const python = Object.entries(value).map(([key, one]) => '    ' + key + '=' + pythonOf(one, '    ') + ',\n').join('');
    found.push(['Python', 'import os\nfrom ' + sdk.package + ' import ' + name + '\n\n' +
      'client = ' + name + '(base_url=' + baseUrl + ', api_key=os.environ["HEADRACE_API_KEY"])\n' +
      'answer = client.' + sdk.method + '(\n' + python + ')\n' +
      (streams ? 'for event in answer:\n    print(event)' : 'print(answer)')]);
    const from = sdk.package === 'openai' ? 'openai' : '@anthropic-ai/sdk';
    const camel = sdk.method.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    found.push(['JavaScript', 'import ' + name + " from '" + from + "';\n\n" +
      'const client = new ' + name + '({ baseURL: ' + baseUrl + ', apiKey: ${KEY_VARIABLE} });\n' +
      'const answer = await client.' + camel + '(' + JSON.stringify(value, null, 2) + ');\n' +
      (streams ? 'for await (const event of answer) console.log(event);' : 'console.log(answer);')]);
    return found;
  }

  function pythonOf(value, indent) {
    if (value === null) return 'None';
    if (typeof value === 'boolean') return value ? 'True' : 'False';
    if (typeof value !== 'object') return JSON.stringify(value);
    const inner = indent + '    ';
    const items = Array.isArray(value) ? value.map((one) => pythonOf(one, inner))
      : Object.entries(value).map(([key, one]) => JSON.stringify(key) + ': ' + pythonOf(one, inner));
    const [open, close] = Array.isArray(value) ? '[]' : '{}';
    const line = open + items.join(', ') + close;
    return line.length + indent.length < 88 ? line : open + '\n' + items.map((item) => inner + item + ',\n').join('') + indent + close;
  }

  /** The form that sends a request, and code that does the same. */
  function tryIt(path, method, operation) {
    const parameters = (operation.parameters || []).filter((one) => one.in !== 'cookie');
    const inputs = parameters.map((one) => {
      const input = el('input', { name: one.name, autocomplete: 'off', spellcheck: 'false', ...(one.in === 'path' && { required: '' }) });
      const given = EXAMPLE_PATHS[one.name];
      if (one.in === 'path' && given) input.value = given === 'ModelId' ? modelIds[0] || '' : given;
      return input;
    });
    const media = operation.requestBody && operation.requestBody.content['application/json'];
    const examples = (media && media.examples) || {};
    const body = media && el('textarea', { spellcheck: 'false' });
    const first = Object.values(examples)[0];
    const show = (value) => { body.value = JSON.stringify(value, null, 2); };
    if (body) {
      show(first ? first.value : sample(media.schema));
      body.rows = Math.min(24, body.value.split('\n').length + 1);
    }
    const choice = Object.keys(examples).length > 1 && el('select', {},
      ...Object.entries(examples).map(([name, { summary }]) => el('option', { value: name }, summary)));
    const scheme = Object.keys((operation.security || [])[0] || {})[0];

    const url = () => {
      let filled = path;
      const query = new URLSearchParams();
      parameters.forEach(({ name, in: where }, i) => {
        const value = inputs[i].value;
        if (!value) return;
        if (where === 'query') query.set(name, value);
        else filled = filled.replace('{' + name + '}', () => value.split('/').map(encodeURIComponent).join('/'));
      });
      const shown = query.size > 0 ? '?' + query : '';
      return decodeBraces(new URL(filled.replace(/^\//, ''), base).href) + shown;
    };
    const decodeBraces = (text) => text.replaceAll('%7B', '{').replaceAll('%7D', '}');
    const code = el('pre', { tabindex: '0', 'aria-label': 'Code' });
    const tabs = el('div', { class: 'tabs', role: 'group', 'aria-label': 'Language' });
    let language = 'curl';
    const showCode = () => {
      const found = snippets(url(), method, scheme, body && body.value, operation['x-headrace-sdk']);
      const shown = found.find(([name]) => name === language) || found[0];
      code.textContent = shown[1];
      // Pressed buttons stay where they are, so that focus stays on them.
      if (tabs.childElementCount !== found.length) {
        tabs.replaceChildren(...found.map(([name]) => {
          const button = el('button', { type: 'button' }, name);
          button.addEventListener('click', () => { language = name; showCode(); });
          return button;
        }));
      }
      [...tabs.children].forEach((button) => button.setAttribute('aria-pressed', String(button.textContent === shown[0])));
      tabs.hidden = found.length < 2;
    };
    const send = el('button', { class: 'main', type: 'submit' }, 'Send');
    const stop = el('button', { type: 'button', disabled: '' }, 'Stop');
    const outcome = el('span', { class: 'outcome', role: 'status' });
    const answer = el('pre', { tabindex: '0', 'aria-label': 'Answer', hidden: '' });
    const labelled = (text, input) => el('label', {}, text, input);
    const form = el('form', {}, ...inputs.map((input, i) => labelled(parameters[i].name, input)),
      choice ? labelled('Example', choice) : '', body ? labelled('Request body', body) : '',
      el('div', { class: 'actions' }, send, stop, outcome), answer);
    if (choice) choice.addEventListener('change', () => show(examples[choice.value].value));
    form.addEventListener('input', showCode);
    form.addEventListener('change', showCode);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const headers = {};
      const key = $('key').value.trim();
      if (key) headers.authorization = 'Bearer ' + key;
      if (body) headers['content-type'] = 'application/json';
      run(url(), { method: method.toUpperCase(), headers, body: body && body.value }, { send, stop, outcome, answer });
    });
    showCode();
    const isSocket = '101' in operation.responses;
    return isSocket ? [] : [el('h3', {}, 'Code'), tabs, copyable(code), el('h3', {}, 'Try it'), form];
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
      const media = operation.requestBody && operation.requestBody.content['application/json'];
      const bodyFields = media && fields(resolve(media.schema));
      inside.append(...tryIt(path, method, operation));
      if (parameters.length) inside.append(el('h3', {}, 'Parameters'), el('ul', { class: 'fields' }, ...parameters));
      if (bodyFields) inside.append(el('h3', {}, 'Request body'), bodyFields);
      inside.append(el('h3', {}, 'Answers'), answers(operation));
      box.append(inside);
    };
    box.addEventListener('toggle', fill, { once: true });
    const link = el('a', { href: '#' + encodeURIComponent(operation.operationId) }, path, method === 'post' ? '' : el('small', {}, method.toUpperCase()));
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
