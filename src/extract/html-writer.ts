// Writes content as clean HTML: elements and attributes of a fixed list, so that it is safe to show. There are no scripts,
// styles, event handlers, forms or ids of the page; URLs are absolute and http or https; elements nest as HTML demands.

import type { Block, Inline, List, Mark, Table } from './content.ts';

export function htmlOf(blocks: readonly Block[]): string {
  return new HtmlWriter().blocks(blocks, '\n');
}

/** Plain text as paragraphs, which blank lines separate. */
export function htmlOfParagraphs(plain: string): string {
  const paragraphs = plain.split(/\n{2,}/).filter((paragraph) => paragraph.trim() !== '');
  return paragraphs.map((paragraph) => `<p>${text(paragraph.trim()).replaceAll('\n', '<br>')}</p>`).join('\n');
}

export function htmlOfCode(source: string, language: string): string {
  return `<pre><code${classOf(language)}>${text(source)}</code></pre>`;
}

class HtmlWriter {
  #isInLink = false;
  /** Footnotes that have a link to their first reference. */
  readonly #referenced = new Set<string>();

  blocks(blocks: readonly Block[], separator: string): string {
    const parts: string[] = [];
    for (let at = 0; at < blocks.length; at++) {
      const block = blocks[at] as Block;
      if (block.kind !== 'footnote') {
        parts.push(this.#block(block));
        continue;
      }
      const notes: string[] = [];
      for (; blocks[at]?.kind === 'footnote'; at++) {
        const { label, children } = blocks[at] as Block & { kind: 'footnote' };
        notes.push(`<li id="fn-${attribute(label)}">${this.blocks(children, '')}</li>`);
      }
      at--;
      parts.push(`<ol>${notes.join('')}</ol>`);
    }
    return parts.join(separator);
  }

  #block(block: Block): string {
    switch (block.kind) {
      case 'paragraph':
        return `<p>${this.#line(block.children)}</p>`;
      case 'heading':
        return `<h${block.level}>${this.#line(block.children)}</h${block.level}>`;
      case 'term':
        return `<dt>${this.#line(block.children)}</dt>`;
      case 'summary':
        return `<summary>${this.#line(block.children)}</summary>`;
      case 'list':
        return this.#list(block);
      case 'table':
        return this.#table(block);
      case 'code':
        return htmlOfCode(block.text, block.language);
      case 'math':
        return htmlOfCode(block.tex, 'math');
      case 'rule':
        return '<hr>';
      case 'quote': {
        const cite = block.cite === '' ? '' : ` cite="${attribute(block.cite)}"`;
        return `<blockquote${cite}>${this.blocks(block.children, '')}</blockquote>`;
      }
      case 'definitions':
        return `<dl>${this.blocks(block.children, '')}</dl>`;
      case 'description':
        return `<dd>${this.blocks(block.children, '')}</dd>`;
      case 'figure':
        return `<figure>${this.blocks(block.children, '')}</figure>`;
      case 'caption':
        return `<figcaption>${this.blocks(block.children, '')}</figcaption>`;
      case 'details':
        return `<details>${this.blocks(block.children, '')}</details>`;
      default:
        return this.blocks(block.children, '');
    }
  }

  #list({ isOrdered, style, isReversed, isTight, items }: List): string {
    const step = isReversed ? -1 : 1;
    const first = items[0]?.number ?? 1;
    let next = first;
    const parts = items.map(({ number, isDone, children }) => {
      const value = isOrdered && number !== next ? ` value="${number}"` : '';
      next = number + step;
      const box = isDone === null ? '' : isDone ? '☑ ' : '☐ ';
      const [lead, ...others] = children;
      // The line of an item needs no paragraph of its own.
      const isLine = (isTight || children.length === 1) && lead?.kind === 'paragraph';
      const content = isLine ? this.#line(lead.children) + this.blocks(others, '') : this.blocks(children, '');
      return `<li${value}>${box}${content}</li>`;
    });
    if (!isOrdered) return `<ul>${parts.join('')}</ul>`;
    const start = first === (isReversed ? items.length : 1) ? '' : ` start="${first}"`;
    const type = style === '1' ? '' : ` type="${style}"`;
    return `<ol${start}${isReversed ? ' reversed' : ''}${type}>${parts.join('')}</ol>`;
  }

  #table({ caption, rows }: Table): string {
    const title = caption.length === 0 ? '' : `<caption>${this.#line(caption)}</caption>`;
    const lines = rows.map((row) => {
      const cells = row.map(({ isHeader, columnSpan, rowSpan, children }) => {
        const name = isHeader ? 'th' : 'td';
        const spans = (columnSpan > 1 ? ` colspan="${columnSpan}"` : '') + (rowSpan > 1 ? ` rowspan="${rowSpan}"` : '');
        const [lead] = children;
        const isLine = children.length === 1 && lead?.kind === 'paragraph';
        return `<${name}${spans}>${isLine ? this.#line(lead.children) : this.blocks(children, '')}</${name}>`;
      });
      return `<tr>${cells.join('')}</tr>`;
    });
    return `<table>${title}<tbody>${lines.join('')}</tbody></table>`;
  }

  #line(inlines: readonly Inline[]): string {
    return inlines.map((inline) => this.#inline(inline)).join('');
  }

  #inline(inline: Inline): string {
    switch (inline.kind) {
      case 'text':
        return text(inline.text);
      case 'break':
        return '<br>';
      case 'code':
        return `<${inline.name}>${text(inline.text)}</${inline.name}>`;
      case 'image':
        return `<img src="${attribute(inline.url)}" alt="${attribute(inline.alt)}">`;
      case 'math':
        return `<code class="language-math">${text(inline.tex)}</code>`;
      case 'reference': {
        const label = attribute(inline.label);
        const id = this.#referenced.has(label) ? '' : ` id="fnref-${label}"`;
        this.#referenced.add(label);
        // A link cannot hold another.
        return `<sup${id}>${this.#isInLink ? label : `<a href="#fn-${label}">${label}</a>`}</sup>`;
      }
      default:
        return this.#mark(inline);
    }
  }

  #mark({ name, url, children }: Mark): string {
    if (name !== 'a') return `<${name}>${this.#line(children)}</${name}>`;
    this.#isInLink = true;
    const line = this.#line(children);
    this.#isInLink = false;
    return `<a href="${attribute(url)}">${line}</a>`;
  }
}

function classOf(language: string): string {
  return /^[a-z0-9+#_.-]{1,30}$/.test(language) ? ` class="language-${attribute(language)}"` : '';
}

const TEXT: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function text(value: string): string {
  return value.replaceAll(/[&<>]/g, (character) => TEXT[character] as string);
}

function attribute(value: string): string {
  return value.replaceAll(/[&<>"]/g, (character) => TEXT[character] as string);
}
