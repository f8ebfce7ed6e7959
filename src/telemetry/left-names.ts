// Names that have left: CRNs and models. Their series are dropped after a while: pods and adapters come and go, and would add up.

/** As long as routing remembers a CRN that has left; requests that run there have ended mostly. */
const GONE_MS = 5 * 60_000;

/** Base URLs and model ids that there are. */
export interface PresentNames {
  readonly crns: ReadonlySet<string>;
  readonly models: ReadonlySet<string>;
}

/** Those of a routing table. */
export function presentNames({
  models,
}: {
  readonly models: readonly { readonly id: string; readonly members: readonly { readonly url: string }[] }[];
}): PresentNames {
  return {
    crns: new Set(models.flatMap(({ members }) => members.map(({ url }) => url))),
    models: new Set(models.map(({ id }) => id)),
  };
}

export class LeftNames {
  /** When each was first seen to be absent. */
  readonly #sinceMs = new Map<string, number>();

  /** Those of `known` that have not been `present` for a while, each once. The empty name is that of no CRN and no model, and stays. */
  due(known: Iterable<string>, present: ReadonlySet<string>, nowMs: number): readonly string[] {
    const due: string[] = [];
    for (const name of new Set(known)) {
      const sinceMs = this.#sinceMs.get(name);
      if (name === '' || present.has(name)) {
        this.#sinceMs.delete(name);
      } else if (sinceMs === undefined) {
        this.#sinceMs.set(name, nowMs);
      } else if (nowMs - sinceMs >= GONE_MS) {
        this.#sinceMs.delete(name);
        due.push(name);
      }
    }
    return due;
  }
}
