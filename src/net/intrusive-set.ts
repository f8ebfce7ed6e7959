// Set with O(1) add and remove and no allocation per change. A `Set` or `Map` that changes all the time makes a new table every
// few dozen changes, and V8 links the dead tables: once one of them is in the old generation, what the later ones held survives
// until a full collection.

/** Unordered members, each at most once. A member stores its index in the number field `F`, which is -1 outside the set. */
export class IntrusiveSet<F extends string, T extends Record<F, number>> {
  readonly #field: F;
  readonly #members: T[] = [];

  constructor(field: F) {
    this.#field = field;
  }

  get size(): number {
    return this.#members.length;
  }

  /** The member with this index, from 0 to `size` - 1. Indexes change when a member leaves. */
  at(index: number): T | undefined {
    return this.#members[index];
  }

  /** Adds a member. No effect when it is in the set. */
  add(member: T): void {
    const fields: Record<F, number> = member;
    if (fields[this.#field] < 0) fields[this.#field] = (this.#members.push(member) - 1) as T[F];
  }

  /** Removes a member. No effect when it is not in the set. */
  delete(member: T): void {
    const fields: Record<F, number> = member;
    const slot = fields[this.#field];
    if (slot < 0) return;
    fields[this.#field] = -1 as T[F];
    const last = this.#members.pop() as T;
    if (last === member) return;
    this.#members[slot] = last;
    (last as Record<F, number>)[this.#field] = slot as T[F];
  }

  /** A copy of the members, safe to walk while they are removed. */
  list(): readonly T[] {
    return [...this.#members];
  }
}
