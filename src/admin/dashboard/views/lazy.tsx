// Views that are loaded when they are first opened, so that the page opens with what the overview needs.

import type { FunctionComponent, VNode } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Loading, Problem } from '../components/states.tsx';
import type { ViewProps } from './index.ts';

/** A view of a module of its own. It shows that it is loading, or why it could not be. */
export function lazy(load: () => Promise<FunctionComponent<ViewProps>>): FunctionComponent<ViewProps> {
  let Loaded: FunctionComponent<ViewProps> | null = null;
  return function LazyView(props: ViewProps): VNode {
    const [, render] = useState(0);
    const [isMissing, setMissing] = useState(false);
    useEffect(() => {
      if (Loaded !== null) return;
      load().then(
        (component) => {
          Loaded = component;
          render((count) => count + 1);
        },
        () => setMissing(true),
      );
    }, []);
    if (Loaded !== null) return <Loaded {...props} />;
    if (!isMissing) return <Loading what="the view" />;
    return (
      <Problem
        text="This view could not be loaded; the gateway may have been updated."
        retry={() => location.reload()}
      />
    );
  };
}
