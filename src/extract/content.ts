// The content of a page as a tree of blocks and inlines that all writers share. What pages express in many ways (code with
// its language, formulas, footnotes, lazy images, grids of cells) has one form here. Blocks never stand inside inlines.

import type { Gutters } from './content-code.ts';
import type { Footnotes } from './content-footnotes.ts';
import type { UrlResolver } from './links.ts';
import type { Dropped, Tree } from './tree.ts';

/** Elements that mark a part of a line; `a` has a URL. */
export type MarkName = 'a' | 'cite' | 'del' | 'em' | 'ins' | 'mark' | 'q' | 'rt' | 'ruby' | 'strong' | 'sub' | 'sup';

export interface Mark {
  readonly kind: 'mark';
  readonly name: MarkName;
  /** Absolute; empty for other marks than links. */
  readonly url: string;
  readonly children: Inline[];
}

export type Inline =
  | Mark
  | { readonly kind: 'text'; text: string }
  | { readonly kind: 'break' }
  | { readonly kind: 'code'; readonly name: 'code' | 'kbd' | 'samp'; text: string }
  | { readonly kind: 'image'; readonly url: string; readonly alt: string }
  | { readonly kind: 'math'; readonly tex: string; readonly isDisplayed: boolean }
  | { readonly kind: 'reference'; readonly label: string };

export interface ListItem {
  readonly kind: 'item';
  /** 0 in unordered lists. */
  readonly number: number;
  /** Null unless the item is a task. */
  readonly isDone: boolean | null;
  readonly children: readonly Block[];
}

export interface List {
  readonly kind: 'list';
  readonly isOrdered: boolean;
  /** How numbers are displayed: `1`, `a`, `A`, `i` or `I`. */
  readonly style: string;
  readonly isReversed: boolean;
  /** Whether no item has more than a line and a list in it. */
  readonly isTight: boolean;
  readonly items: readonly ListItem[];
}

export interface TableCell {
  /** Column where the cell begins, from 0. */
  readonly column: number;
  readonly columnSpan: number;
  readonly rowSpan: number;
  readonly isHeader: boolean;
  readonly children: readonly Block[];
}

export interface Table {
  readonly kind: 'table';
  readonly caption: readonly Inline[];
  readonly columns: number;
  readonly rows: readonly (readonly TableCell[])[];
}

export type Block =
  | List
  | ListItem
  | Table
  | { readonly kind: 'paragraph'; readonly children: readonly Inline[] }
  | { readonly kind: 'heading'; readonly level: number; readonly children: readonly Inline[] }
  | { readonly kind: 'quote'; readonly cite: string; readonly children: readonly Block[] }
  | { readonly kind: 'code'; readonly language: string; readonly text: string }
  | { readonly kind: 'math'; readonly tex: string }
  | { readonly kind: 'rule' }
  | { readonly kind: 'term'; readonly children: readonly Inline[] }
  | { readonly kind: 'description'; readonly children: readonly Block[] }
  | { readonly kind: 'definitions'; readonly children: readonly Block[] }
  | { readonly kind: 'caption'; readonly children: readonly Block[] }
  | { readonly kind: 'figure'; readonly children: readonly Block[] }
  | { readonly kind: 'summary'; readonly children: readonly Inline[] }
  | { readonly kind: 'details'; readonly children: readonly Block[] }
  | { readonly kind: 'footnote'; readonly label: string; readonly children: readonly Block[] };

/** What is being read. */
export interface Source {
  readonly tree: Tree;
  readonly dropped: Dropped;
  readonly urls: UrlResolver;
  readonly footnotes: Footnotes;
  readonly gutters: Gutters;
}
