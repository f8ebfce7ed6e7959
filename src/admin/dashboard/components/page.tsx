// The frame of a view: its heading, which has the focus after navigation, what belongs beside the heading, and sections below.

import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks';

/** Whether the heading of the next view gets the focus. */
let isHeadingAwaited = false;

/** The heading of the view that shows next gets the focus, so that it is read out after navigation. */
export function focusNextHeading(): void {
  isHeadingAwaited = true;
}

export interface PageProps {
  readonly title: string;
  /** Address and name of the view above this one. */
  readonly parent?: { readonly href: string; readonly name: string };
  /** At the right of the heading. */
  readonly actions?: ComponentChildren;
  /** Below the heading, in one or two lines. */
  readonly lead?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Page({ actions, children, lead, parent, title }: PageProps): VNode {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    if (isHeadingAwaited) heading.current?.focus({ preventScroll: true });
    isHeadingAwaited = false;
  }, []);
  useEffect(() => {
    document.title = `${title} · Headrace`;
  }, [title]);
  return (
    <>
      <div class="page-head">
        <div class="page-title">
          {parent !== undefined && (
            <a class="parent" href={parent.href}>
              {parent.name}
              <span aria-hidden="true"> /</span>
            </a>
          )}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
        </div>
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </div>
      {lead !== undefined && <div class="lead">{lead}</div>}
      {children}
    </>
  );
}

export interface SectionProps {
  readonly title: string;
  /** For screen readers only, where the content speaks for itself. */
  readonly isHeadingHidden?: boolean;
  /** For links to this section. */
  readonly id?: string;
  /** At the right of the heading. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Section({ actions, children, id, isHeadingHidden = false, title }: SectionProps): VNode {
  const heading = useId();
  return (
    <section aria-labelledby={heading} id={id}>
      <div class={isHeadingHidden ? 'hidden-label' : 'section-head'}>
        <h2 id={heading} tabIndex={-1}>
          {title}
        </h2>
        {actions}
      </div>
      {children}
    </section>
  );
}
