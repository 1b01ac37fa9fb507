// Keyed state: values that the host reads before a call, and takes back with its result.

import { List, SortedMap, flushAll } from './collections.js';
import { words } from './columns.js';
import { Pieces, binaryOf, encodeText, textOfBinary } from './text.js';

const KEEP = 0;
const PUT = 1;
const DELETE = 2;

/** A state's bytes as they are. What `get` gives is a view, so only `set` changes it. */
export const bytes = {
  encode: (value) => value,
  decode: (stored) => stored,
  immutable: true,
};

/** A text, as UTF-8. */
export const text = {
  encode: (value) => value,
  decode: strictText,
  immutable: true,
};

function strictText(stored) {
  const text = textOfBinary(binaryOf(stored));
  if (text === undefined) throw new Error(`${stored.length} bytes that are no UTF-8 are stored`);
  return text;
}

/** Anything that JSON can say. */
export const json = {
  encode: (value) => JSON.stringify(value),
  decode: (stored) => JSON.parse(strictText(stored)),
};

const NUMBERS = {
  u8: [1, 'getUint8', 'setUint8'],
  u16: [2, 'getUint16', 'setUint16'],
  u32: [4, 'getUint32', 'setUint32'],
  s32: [4, 'getInt32', 'setInt32'],
  u64: [8, 'getBigUint64', 'setBigUint64'],
  s64: [8, 'getBigInt64', 'setBigInt64'],
  f64: [8, 'getFloat64', 'setFloat64'],
};

const LEAST = { u8: 0, u16: 0, u32: 0, s32: -(2 ** 31), u64: 0, s64: Number.MIN_SAFE_INTEGER };
const GREATEST = { u8: 2 ** 8 - 1, u16: 2 ** 16 - 1, u32: 2 ** 32 - 1, s32: 2 ** 31 - 1, u64: Number.MAX_SAFE_INTEGER, s64: Number.MAX_SAFE_INTEGER };

/** An object of numbers, little-endian one after the other: what `state_value!` of the Rust SDK makes of such a struct. */
export function struct(fields) {
  const layout = [];
  let length = 0;
  for (const [name, kind] of Object.entries(fields)) {
    if (NUMBERS[kind] === undefined) throw new TypeError(`field '${name}': there is no kind '${kind}', only ${Object.keys(NUMBERS).join(', ')}`);
    const [size, get, set] = NUMBERS[kind];
    layout.push({ name, kind, get, set, at: length, wide: size === 8 && kind !== 'f64' });
    length += size;
  }
  return {
    encode(value) {
      const stored = new Uint8Array(length);
      const view = new DataView(stored.buffer);
      for (const { name, kind, set, at, wide } of layout) {
        const number = checked(value[name], name, kind);
        view[set](at, wide ? BigInt(number) : number, true);
      }
      return stored;
    },
    decode(stored) {
      if (stored.length !== length) throw new Error(`${stored.length} bytes are stored, ${length} are wanted`);
      const view = new DataView(stored.buffer, stored.byteOffset, length);
      const value = {};
      for (const { name, kind, get, at } of layout) value[name] = checked(Number(view[get](at, true)), name, kind);
      return value;
    },
  };
}

function checked(number, name, kind) {
  if (kind === 'f64' ? typeof number === 'number' : Number.isInteger(number) && number >= LEAST[kind] && number <= GREATEST[kind]) return number;
  throw new RangeError(`field '${name}' is ${typeof number === 'number' ? number : typeof number}: no ${kind} that a number can hold exactly`);
}

/** What a codec makes of a value, as bytes. */
function encodedBytes(codec, value) {
  const encoded = codec.encode(value);
  return typeof encoded === 'string' ? encodeText(encoded) : encoded;
}

/** The value of one state for one key. */
export class Value {
  reset(codec, cells, key) {
    this.codec = codec;
    this.cells = cells;
    this.key = key;
    this.known = false;
    this.changed = false;
    this.value = undefined;
  }

  ofKey() {}

  get isStored() {
    return this.cells.ops[this.key] === 1;
  }

  get() {
    if (!this.known) {
      if (this.isStored) this.value = this.codec.decode(this.cells.bytes(this.key));
      this.known = true;
    }
    return this.value;
  }

  set(value) {
    if (value === undefined || value === null) throw new TypeError(`state can't be set to ${value}: delete() takes it away`);
    if (value !== this.value) this.value = this.ownCopy(value);
    this.known = true;
    this.changed = true;
    return this.value;
  }

  delete() {
    this.known = true;
    this.changed = true;
    this.value = undefined;
  }

  /** What is kept must not change with an object or memory that the author uses again for another key. */
  ownCopy(value) {
    if (value instanceof Uint8Array) return value.slice();
    return this.codec.immutable === true ? value : this.codec.decode(encodedBytes(this.codec, value));
  }

  /** What becomes of it; appends what is to be stored. An object that was changed without `set` counts, too. */
  finish(pieces) {
    const mayDiffer = this.known && this.value !== undefined && this.codec.immutable !== true;
    if (this.value === undefined || !(this.changed || mayDiffer)) {
      pieces.pushString('');
      return this.changed && this.isStored ? DELETE : KEEP;
    }
    if (this.changed) {
      pieces.push(this.codec.encode(this.value));
      return PUT;
    }
    const encoded = binaryOf(encodedBytes(this.codec, this.value));
    const differs = encoded !== binaryOf(this.cells.bytes(this.key));
    pieces.pushBinary(differs ? encoded : '');
    return differs ? PUT : KEEP;
  }
}

/** One prefetched state of a call, for all of its keys. */
class Cells {
  constructor({ ops, data, index }) {
    this.ops = ops;
    this.data = data;
    this.index = words(index);
  }

  bytes(key) {
    return this.data.subarray(this.index[key], this.index[key + 1]);
  }
}

/** The states of an operator. */
export class States {
  /** `declared`: as `infoOf` gives them. `hosts`: the contract's interfaces by kind, or what stands in for them. */
  constructor(declared, hosts = {}) {
    this.declared = declared;
    this.names = declared.map((state) => state.name);
    this.hosts = hosts;
    this.prefetched = declared.filter((state) => state.kind === 'value').length;
    this.hasCollections = this.prefetched < declared.length;
    this.places = Object.create(null);
    this.names.forEach((name, i) => {
      this.places[name] = this.places[i] = i;
    });
    /** States of the running call, those of a key side by side; the objects serve again. */
    this.values = [];
    this.keys = 0;
  }

  place(which) {
    return this.places[which] ?? this.refuse(which);
  }

  refuse(which) {
    throw new RangeError(`there is no state '${which}': states in info declares them`);
  }

  /** `given`: the contract's cells, one for each state that is prefetched. `keys`: number of the call's distinct keys. */
  load(given, keys) {
    if (given.length !== this.prefetched) throw new Error(`the host gave ${given.length} states, ${this.prefetched} are declared`);
    this.keys = given.length > 0 ? given[0].ops.length : keys;
    const cells = given.map((one) => new Cells(one));
    let at = 0;
    for (let key = 0; key < this.keys; key++) {
      let next = 0;
      for (let state = 0; state < this.names.length; state++, at++) {
        if (at === this.values.length) this.values.push(this.make(state));
        const value = this.values[at];
        if (this.declared[state].kind === 'value') value.reset(this.declared[state].codec, cells[next++], key);
        else value.reset();
      }
    }
  }

  make(state) {
    const { kind } = this.declared[state];
    if (kind === 'value') return new Value();
    return new (kind === 'list' ? List : SortedMap)(this.declared[state], this.hosts[kind], state);
  }

  /** Hands over lists and maps, and gives the contract's updates of the others: empty if nothing changes. */
  store() {
    const updates = [];
    let changes = false;
    for (let state = 0; state < this.names.length; state++) {
      const own = this.of(state);
      if (this.declared[state].kind !== 'value') {
        flushAll(own);
        continue;
      }
      const ops = new Uint8Array(this.keys);
      const pieces = new Pieces();
      for (let key = 0; key < this.keys; key++) {
        ops[key] = this.finish(own[key], pieces, state);
        changes ||= ops[key] !== KEEP;
      }
      updates.push({ ops, ...pieces.finish() });
    }
    return changes ? updates : [];
  }

  /** The state of each key. */
  of(state) {
    const own = [];
    for (let key = 0; key < this.keys; key++) own.push(this.values[key * this.names.length + state]);
    return own;
  }

  finish(value, pieces, state) {
    try {
      return value.finish(pieces);
    } catch (thrown) {
      throw new Error(`state '${this.names[state]}' can't be encoded: ${thrown.message}`);
    }
  }
}
