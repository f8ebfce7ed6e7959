// A figure with its name and what belongs to it, such as other quantiles.

import { type ComponentChildren, Fragment, type VNode } from 'preact';

export interface TileProps {
  readonly name: string;
  readonly value: string;
  /** Behind the value, smaller. */
  readonly unit?: string;
  /** Below the value. */
  readonly children?: ComponentChildren;
  /** Something is wrong; the text below the value must say what. */
  readonly bad?: boolean;
}

export function Tile({ bad = false, children, name, unit, value }: TileProps): VNode {
  return (
    <div class={bad ? 'tile bad' : 'tile'}>
      <dt>{name}</dt>
      <dd>
        <span class="value">
          {value}
          {unit !== undefined && <span class="unit"> {unit}</span>}
        </span>
        {children !== undefined && <span class="more">{children}</span>}
      </dd>
    </div>
  );
}

/** A row of tiles, or several. */
export function Tiles({ children, label }: { readonly children: ComponentChildren; readonly label: string }): VNode {
  return (
    <dl class="tiles" aria-label={label}>
      {children}
    </dl>
  );
}

/** Name and value pairs inside of a tile: `p95 120 ms`. */
export function Pairs({ of }: { readonly of: readonly (readonly [name: string, value: string])[] }): VNode {
  return (
    <>
      {of.map(([name, value], index) => (
        <Fragment key={name}>
          {index > 0 && ' '}
          <span class="pair">
            {name} <b>{value}</b>
          </span>
        </Fragment>
      ))}
    </>
  );
}

/** Facts of one thing: name and value, in columns. */
export function Facts({ of }: { readonly of: readonly (readonly [name: string, value: ComponentChildren])[] }): VNode {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
