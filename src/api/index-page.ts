// `GET /`: what answers here and where its parts are, as a page for browsers and as JSON for other clients. Addresses are
// relative, so that they hold below a mount point.

import type { CatalogModel } from '../catalog/index.ts';
import { packageVersion } from '../config/env.ts';
import type { Exchange } from '../ingress/exchange.ts';
import type { ApiDeps } from './deps.ts';
import { palette } from './docs-style.ts';
import { respondRendered } from './lists.ts';
import { escapeMarkup, pagePolicy } from './page-policy.ts';
import type { ObjectSchema } from './schema.ts';

/** The answer to clients that do not ask for HTML. Addresses are relative references. */
export interface Index {
  readonly name: 'Headrace';
  readonly version: string;
  readonly documentation: string;
  readonly openapi: string;
  readonly models: string;
  readonly health: string;
}

export const INDEX: ObjectSchema<Index> = {
  type: 'object',
  name: 'Index',
  fields: {
    name: { type: 'string', required: true, description: 'Always `Headrace`' },
    version: { type: 'string', required: true },
    documentation: { type: 'string', required: true, description: 'The API reference with forms to try it' },
    openapi: { type: 'string', required: true, description: 'The OpenAPI document' },
    models: { type: 'string', required: true, description: 'The list of models' },
    health: { type: 'string', required: true, description: 'Whether the gateway is ready' },
  },
};

/** `Vary`: a cache must not give one form to a client of the other. The links are those of RFC 8631. */
const INDEX_HEADERS = [
  ...['vary', 'accept', 'cache-control', 'no-cache'],
  ...['link', '<docs>; rel="service-doc", <openapi.json>; rel="service-desc"'],
];

/** Serves `GET /`. */
export function index(exchange: Exchange, deps: ApiDeps): void {
  if (/\b(text\/html|application\/xhtml\+xml)\b/i.test(exchange.header('accept') ?? '')) {
    const headers = ['content-type', 'text/html; charset=utf-8', 'content-security-policy', POLICY, ...INDEX_HEADERS];
    respondRendered(exchange, deps, 'index.html', () => indexPage(deps.catalog, deps.settings.keys.required), headers);
  } else {
    const headers = ['content-type', 'application/json', ...INDEX_HEADERS];
    respondRendered(exchange, deps, 'index', () => JSON.stringify(document()), headers);
  }
}

function document(): Index {
  return {
    name: 'Headrace',
    version: packageVersion(),
    documentation: './docs',
    openapi: './openapi.json',
    models: './v1/models',
    health: './health',
  };
}

/** Shows relative addresses as absolute ones: only the browser knows the address of the page. */
const SCRIPT = `
const origin = new URL('.', location.href).href.slice(0, -1);
for (const node of document.querySelectorAll('[data-base]')) node.textContent = node.textContent.replace('BASE_URL', origin);
`;

const STYLE = `${palette}* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); }
main { max-width: 46rem; margin: 0 auto; padding: 3rem 1.25rem 5rem; }
h1 { font-size: 1.9rem; letter-spacing: -.02em; margin: 0; }
h1 small { font-size: .9rem; font-weight: 400; letter-spacing: 0; color: var(--quiet); margin-left: .5rem; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; }
p { margin: .4rem 0; }
.lead { color: var(--quiet); }
a { color: var(--water); }
:focus-visible { outline: 2px solid var(--water); outline-offset: 2px; border-radius: 4px; }
ul { margin: .4rem 0; padding-left: 1.2rem; }
code, pre { font-family: var(--mono); font-size: .875em; }
pre { background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; background: var(--sheet); border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .45rem .9rem; border-top: 1px solid var(--line); }
thead th { color: var(--quiet); font-weight: 600; border-top: 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
`;

const POLICY: string = pagePolicy(SCRIPT, STYLE);

/** Models on the page; `v1/models` has all. */
const MOST_MODELS = 50;

/** The page, for the models of a gateway. */
export function indexPage(models: readonly CatalogModel[], needsKey: boolean): string {
  const example = models.find(({ capabilities }) => capabilities?.includes('chat') === true) ?? models[0];
  const body = JSON.stringify({
    model: example?.id ?? 'my-model',
    messages: [{ role: 'user', content: 'Why is the sky blue?' }],
  }).replaceAll("'", "'\\''");
  const key = needsKey ? ' -H "Authorization: Bearer $HEADRACE_API_KEY"' : '';
  const curl = `curl BASE_URL/v1/chat/completions${key} -H 'content-type: application/json' -d '${body}'`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Headrace</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>Headrace<small>${escapeMarkup(packageVersion())}</small></h1>
<p class="lead">A gateway to generative models and web search. It speaks the OpenAI and Anthropic APIs.</p>
<ul>
<li><a href="docs">API reference</a>, with forms to try each endpoint</li>
<li><a href="openapi.json">OpenAPI document</a></li>
<li><a href="v1/models">Models</a> and <a href="health">health</a> as JSON</li>
</ul>
<h2>Base URLs</h2>
<p>OpenAI SDKs and compatible clients: <code data-base>BASE_URL/v1</code></p>
<p>Anthropic SDKs and Claude Code: <code data-base>BASE_URL</code></p>
<p>${needsKey ? 'Requests to models need an API key, as <code>Authorization: Bearer</code> or <code>x-api-key</code>.' : 'This gateway asks for no API key.'}</p>
<h2>A first request</h2>
<pre data-base tabindex="0" aria-label="curl command">${escapeMarkup(curl)}</pre>
<h2>Models</h2>
${modelTable(models)}
</main>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

function modelTable(models: readonly CatalogModel[]): string {
  if (models.length === 0) return '<p>No model is configured.</p>';
  const rows = models.slice(0, MOST_MODELS).map(({ id, capabilities = [], contextLength }) => {
    const context = contextLength === undefined ? '' : contextLength.toLocaleString('en-US');
    return `<tr><th scope="row">${escapeMarkup(id)}</th><td>${escapeMarkup(capabilities.join(', '))}</td><td class="number">${context}</td></tr>`;
  });
  const rest = models.length - rows.length;
  return `<div class="scroll" tabindex="0" role="region" aria-label="Models"><table>
<thead><tr><th scope="col">Model</th><th scope="col">Capabilities</th><th scope="col" class="number">Context, tokens</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>${rest > 0 ? `\n<p><a href="v1/models">${rest} more</a></p>` : ''}`;
}
