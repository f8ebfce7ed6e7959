// Who is here now, for things that come and go with every request. A `Set` or `Map` that stays small but changes all the
// time makes a new table every few dozen changes, and V8 keeps each dead table linked to the next one: once one of them is in
// the old generation, all that come after it, with whatever they held, survive every young collection until a full one.
// Here nothing is left behind. Used by ingress/, gateway/data-plane.ts and buffered-client.ts.

/** Members in no order, at most once. Each keeps its seat in the number field `F`, which is -1 at first. */
export class IntrusiveSet<F extends string, T extends Record<F, number>> {
  readonly #field: F;
  readonly #members: T[] = [];

  constructor(field: F) {
    this.#field = field;
  }

  get size(): number {
    return this.#members.length;
  }

  /** Adds one; harmless when it is in. */
  add(member: T): void {
    if (member[this.#field] < 0) this.#slot(member, this.#members.push(member) - 1);
  }

  /** Takes one out; harmless when it is not in. */
  delete(member: T): void {
    const slot = member[this.#field];
    if (slot < 0) return;
    this.#slot(member, -1);
    const last = this.#members.pop() as T;
    if (last === member) return;
    this.#members[slot] = last;
    this.#slot(last, slot);
  }

  /** Those who are in now; they may leave meanwhile. */
  list(): readonly T[] {
    return [...this.#members];
  }

  #slot(member: Record<F, number>, slot: number): void {
    member[this.#field] = slot as Record<F, number>[F];
  }
}
