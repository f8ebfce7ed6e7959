// Series whose first label is a CRN. Those of CRNs that have left are dropped after a while: pods come and go, and would add up.

/** As long as routing remembers a CRN that has left; requests that run there have ended mostly. */
const GONE_MS = 5 * 60_000;

/** A family of metrics. */
export interface SeriesByCrn {
  readonly firstWords: Iterable<string>;
  drop(url: string): void;
}

export class CrnSeries {
  readonly #families: readonly SeriesByCrn[];
  /** CRNs with series that are in no table any more, and since when they were seen to be in none. */
  readonly #goneSinceMs = new Map<string, number>();

  constructor(families: readonly SeriesByCrn[]) {
    this.#families = families;
  }

  /** Drops the series of CRNs that have not been among `urls` for a while. The CRNs that were dropped. */
  keep(urls: ReadonlySet<string>, nowMs: number): readonly string[] {
    const dropped: string[] = [];
    for (const url of new Set(this.#families.flatMap(({ firstWords }) => [...firstWords]))) {
      const sinceMs = urls.has(url) ? undefined : (this.#goneSinceMs.get(url) ?? nowMs);
      if (sinceMs !== undefined && nowMs - sinceMs < GONE_MS) {
        this.#goneSinceMs.set(url, sinceMs);
        continue;
      }
      this.#goneSinceMs.delete(url);
      if (sinceMs === undefined) continue;
      for (const family of this.#families) family.drop(url);
      dropped.push(url);
    }
    return dropped;
  }
}
