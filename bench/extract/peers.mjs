// The extractors that are compared: `name: async (tools) => (page) => { title, content }`. Packages are those of bench/package.json,
// requirements.txt and go-trafilatura/go.mod. An extractor is imported, or its process started, when it is asked for; `cpuMs` in an
// answer is the CPU time of that process, and `close` ends it.
import { execFileSync, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { temporaryFolder } from '../lib/process.mjs';

export const PEERS = {
  async headrace() {
    const { clean } = await import('../../dist/src/extract/index.js');
    return ({ html, url }) => clean(html, { url });
  },

  async readability() {
    const { Readability } = await import('@mozilla/readability');
    const { parseHTML } = await import('linkedom');
    return ({ html }) => {
      const { document } = parseHTML(html);
      const article = new Readability(document).parse();
      if (article === null) return { title: '', content: '' };
      const { document: body } = parseHTML(`<!doctype html><html><body>${article.content}</body></html>`);
      return { title: article.title ?? '', content: blockText(body) };
    };
  },

  async defuddle() {
    const { Defuddle } = await import('defuddle/node');
    const { parseHTML } = await import('linkedom');
    return async ({ html, url }) => {
      // Without the third-party services that it asks by itself.
      const { title, content } = await Defuddle(parseHTML(html).document, url, { useAsync: false });
      const { document } = parseHTML(`<!doctype html><html><body>${content}</body></html>`);
      return { title, content: blockText(document) };
    };
  },

  /** `python` is an interpreter with requirements.txt installed. */
  async trafilatura({ python }) {
    return processOf(python, [join(import.meta.dirname, 'trafilatura-driver.py')]);
  },

  /** Built on demand, outside of the repository. */
  async 'go-trafilatura'({ go }) {
    const binary = join(temporaryFolder(), 'driver');
    execFileSync(go, ['build', '-o', binary, '.'], {
      cwd: join(import.meta.dirname, 'go-trafilatura'),
      stdio: 'inherit',
    });
    return processOf(binary, []);
  },

  async 'all-text'() {
    const { parseHTML } = await import('linkedom');
    return ({ html }) => {
      const { document } = parseHTML(html);
      return { title: document.title, content: blockText(document) };
    };
  },
};

/** An extractor in a process that reads a page and writes an answer per line. */
function processOf(command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  async function extract({ html, url }) {
    child.stdin.write(`${JSON.stringify({ html, url })}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error(`${command} has ended.`);
    return JSON.parse(value);
  }
  extract.close = () => child.stdin.end();
  return extract;
}

const BLOCKS = new Set(
  'address article aside blockquote br dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table tbody td th thead tr ul'.split(
    ' ',
  ),
);
const UNREAD = new Set(['script', 'style', 'noscript', 'template', 'head']);

/** Text with line ends between blocks, so that no peer is marked down for words that touch. */
function blockText(document) {
  const parts = [];
  const walk = [document.body ?? document.documentElement];
  while (walk.length > 0) {
    const node = walk.pop();
    if (typeof node === 'string') parts.push(node);
    else if (node?.nodeType === 3) parts.push(node.data);
    else if (node?.nodeType === 1 && !UNREAD.has(node.localName)) {
      const edge = BLOCKS.has(node.localName) ? ['\n'] : [];
      walk.push(...edge, ...[...node.childNodes].reverse(), ...edge);
    }
  }
  return parts.join('');
}
