// The page at `GET /docs`: one HTML text without external assets that renders the OpenAPI document and has a form for each
// endpoint. Script and style are constants, so that the content security policy allows them by hash and nothing else.
import { escapeMarkup, pagePolicy } from './page-policy.ts';
import { docsScript } from './docs-script.ts';
import { docsStyle } from './docs-style.ts';

/** Value of the header `content-security-policy` for the page. */
export const docsPolicy: string = pagePolicy(docsScript, docsStyle);

/** The page, for the document at `openapiPath`, such as `/openapi.json`; also a path relative to the page. */
export function docsPage(openapiPath: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Headrace API</title>
<link rel="icon" href="data:,">
<style>${docsStyle}</style>
</head>
<body data-openapi="${escapeMarkup(openapiPath)}">
<a class="skip" href="#endpoints">Skip to the endpoints</a>
<header><div class="bar">
<h1 class="brand">Headrace API<small id="version"></small></h1>
<label class="hidden-label" for="search">Search endpoints</label>
<input id="search" type="search" placeholder="Search" autocomplete="off">
<label class="hidden-label" for="key">API key for trying requests; it never leaves this page except in them</label>
<input id="key" type="password" placeholder="API key" autocomplete="off" spellcheck="false">
<span id="found" class="hidden-label" role="status"></span>
</div></header>
<div class="page">
<nav id="nav" aria-label="Endpoints"></nav>
<main id="endpoints" tabindex="-1"><p class="lead">Reading the description…</p><noscript>This page needs scripts; the same facts are in <a href="${escapeMarkup(openapiPath)}">the OpenAPI document</a>.</noscript></main>
</div>
<script>${docsScript}</script>
</body>
</html>
`;
}
