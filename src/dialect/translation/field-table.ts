// A direction of translation as tables: one table for each kind of object of the dialect, one row for each of its fields. A row
// says what happens to the field and writes it; docs/dialects.md is made from the same rows.

import { NEXT, NODE } from '../json-scan-module.ts';
import { nameId, placesById } from '../json-names.ts';
import { JsonTape } from '../json-tape.ts';
import { type JsonWriter, literal } from './json-writer.ts';
import { untranslatable, untranslatableType } from './untranslatable.ts';

const { NONE } = JsonTape;

/**
 * What happens to a field: it is said in another way, kept as it is, left out because the answer does not depend on it, or the
 * request is refused because the answer does.
 */
export type Action = 'carried' | 'passed' | 'dropped' | 'refused';

/**
 * Writes one field: members of the object that is being written, or nothing.
 * @param value its node; never null in JSON, which counts as absent
 * @param object the node of the object that has it, for its other members
 */
export type FieldWriter = (value: number, object: number) => void;

/** One row of a table. */
export interface Field {
  /** The name of the member; in a table of types the value of `type`, with `*` for any end of it. */
  readonly name: string;
  readonly action: Action;
  /** Where it goes, as a path of the other dialect; '' where it goes nowhere. */
  readonly to: string;
  /** One sentence, for the docs and for the error of a refusal. */
  readonly note: string;
  /** Default: writes the value as it is written, under the last name in `to`. Null: other rows write it. */
  readonly write?: FieldWriter | null;
}

export function carried(name: string, to: string, note: string, write?: FieldWriter | null): Field {
  return { name, action: 'carried', to, note, ...(write !== undefined && { write }) };
}

/** A field that both dialects have, with the same name and the same meaning. */
export function passed(name: string, note: string, write?: FieldWriter | null): Field {
  return { name, action: 'passed', to: name, note, ...(write !== undefined && { write }) };
}

export function dropped(name: string, note: string): Field {
  return { name, action: 'dropped', to: '', note, write: null };
}

/** Refused where it says something: null, false, and what is empty, do not count. A writer may look closer, and throw. */
export function refused(name: string, note: string, write?: FieldWriter): Field {
  return { name, action: 'refused', to: '', note, ...(write !== undefined && { write }) };
}

/** What happens to fields without a row, and one sentence about them. */
export interface Others {
  readonly action: Action;
  readonly note: string;
}

/** A table as the docs show it. */
export interface Table {
  /** The objects that it is about, such as `messages[]`; '' for the body. */
  readonly path: string;
  readonly fields: readonly Field[];
  readonly others: Others;
  /** Whether its rows are values of `type`. */
  readonly ofTypes: boolean;
}

/** What tables read from and write to. */
export interface TableDeps {
  readonly tape: JsonTape;
  readonly out: JsonWriter;
}

/** What the members of an object are beside single ones with a row. */
const REPEATED = 1;
const OTHERS = 2;

/** The fields of one kind of object. */
export class FieldTable implements Table {
  readonly path: string;
  readonly fields: readonly Field[];
  readonly others: Others;
  readonly ofTypes = false;
  readonly #deps: TableDeps;
  readonly #places: Int8Array;
  readonly #writers: readonly (FieldWriter | null)[];

  constructor(deps: TableDeps, path: string, fields: readonly Field[], others: Others) {
    this.path = path;
    this.fields = fields;
    this.others = others;
    this.#deps = deps;
    this.#places = placesById(fields.map(({ name }) => name));
    this.#writers = fields.map((field) => writerOf(deps, field));
  }

  /** Writes the members of the object at `object` in their order, those without a row behind the others. Refuses any other value. */
  write(object: number): void {
    const { out, tape } = this.#deps;
    if (!tape.isObject(object)) throw untranslatable(tape, object, 'It is no object.');
    const { words } = tape;
    const kinds = this.#kinds(object);
    // Of two members with one name the last counts.
    const lastKeys = (kinds & REPEATED) === 0 ? null : this.#lastKeys(object);
    const end = words[object + NEXT] as number;
    for (let key = object + NODE; key < end; key = words[key + NODE + NEXT] as number) {
      const index = this.#indexOf(key);
      const value = key + NODE;
      if (index < 0 || tape.isNull(value) || (lastKeys !== null && lastKeys[index] !== key)) continue;
      this.#writers[index]?.(value, object);
    }
    if ((kinds & OTHERS) === 0 || this.others.action === 'dropped') return;
    for (let key = tape.first(object); key < end; key = tape.next(tape.valueOf(key))) {
      if (this.#indexOf(key) >= 0) continue;
      if (this.others.action === 'refused') throw untranslatable(tape, tape.valueOf(key), this.others.note);
      out.member(key);
    }
  }

  /** Whether the object has a member without a row. */
  hasOthers(object: number): boolean {
    return (this.#kinds(object) & OTHERS) !== 0;
  }

  /** `REPEATED`, if two members have the name of one row, and `OTHERS`, if one has that of none. */
  #kinds(object: number): number {
    const { words } = this.#deps.tape;
    const end = words[object + NEXT] as number;
    // Bits of the rows that were seen.
    let first = 0;
    let second = 0;
    let kinds = 0;
    for (let key = object + NODE; key < end; key = words[key + NODE + NEXT] as number) {
      const index = this.#indexOf(key);
      const bit = 1 << (index & 31);
      if (index < 0) {
        kinds |= OTHERS;
      } else if (index < 32) {
        if ((first & bit) !== 0) kinds |= REPEATED;
        first |= bit;
      } else {
        if ((second & bit) !== 0) kinds |= REPEATED;
        second |= bit;
      }
    }
    return kinds;
  }

  /** By row the last member with its name. */
  #lastKeys(object: number): number[] {
    const { tape } = this.#deps;
    const keys = this.fields.map(() => NONE);
    const end = tape.next(object);
    for (let key = tape.first(object); key < end; key = tape.next(tape.valueOf(key))) {
      const index = this.#indexOf(key);
      if (index >= 0) keys[index] = key;
    }
    return keys;
  }

  /** The row of a member; negative without one. */
  #indexOf(key: number): number {
    return this.#places[this.#deps.tape.name(key)] as number;
  }
}

const TYPE = nameId('type');

/** Objects that differ by the value of their `type`. */
export class TypeTable implements Table {
  readonly path: string;
  readonly fields: readonly Field[];
  readonly others: Others;
  readonly ofTypes = true;
  readonly #deps: TableDeps;
  readonly #places: Int8Array;
  readonly #byBeginning: readonly Field[];

  constructor(deps: TableDeps, path: string, fields: readonly Field[], others: Others) {
    this.path = path;
    this.fields = fields;
    this.others = others;
    this.#deps = deps;
    this.#byBeginning = fields.filter(({ name }) => name.endsWith('*'));
    this.#places = placesById(fields.map(({ name }) => name));
  }

  /** The row of a type, by which the row of an object can be known. */
  row(name: string): Field | undefined {
    return this.fields.find((field) => field.name === name);
  }

  /** The row of the object at `object`; undefined when its type has none. */
  find(object: number): Field | undefined {
    const { tape } = this.#deps;
    const type = tape.member(object, TYPE);
    if (type < 0 || !tape.isString(type)) return undefined;
    const place = this.#places[tape.name(type)] as number;
    if (place >= 0) return this.fields[place];
    if (this.#byBeginning.length === 0) return undefined;
    const text = tape.string(type) ?? '';
    return this.#byBeginning.find(({ name }) => text.startsWith(name.slice(0, -1)));
  }

  /**
   * Calls the writer of its row; without a row writes the object as it is, or refuses it.
   * @param owner second argument of the writer: the object that has it
   */
  write(object: number, owner = object): void {
    const { out, tape } = this.#deps;
    const field = this.find(object);
    const { action, note } = field ?? this.others;
    const isUntyped = field === undefined && !tape.isString(tape.member(object, TYPE));
    if (isUntyped && action === 'dropped') throw untranslatable(tape, object, 'It is no object with a `type`.');
    if (action === 'refused') throw untranslatableType(tape, object, note);
    if (field?.write != null) {
      field.write(object, owner);
    } else if (action === 'passed') {
      out.item(object);
    }
  }
}

function writerOf({ out, tape }: TableDeps, { action, name, note, to, write }: Field): FieldWriter | null {
  if (write !== undefined) return write;
  const own = to.slice(to.lastIndexOf('.') + 1);
  const key = literal(`"${own}":`);
  const carry: FieldWriter = own === name ? (value) => out.member(tape.keyOf(value)) : (value) => out.carry(key, value);
  const refuse: FieldWriter = (value) => {
    if (!tape.isEmpty(value)) throw untranslatable(tape, value, note);
  };
  return action === 'refused' ? refuse : carry;
}
