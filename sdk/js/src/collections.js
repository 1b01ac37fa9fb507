// Lists and maps: state of a key that is asked for, not handed over with the batch. What changes goes to the host when the call ends,
// all keys together; reading asks the host, key by key.

import { NOTHING, words } from './columns.js';
import { Pieces, binaryOf, bytesOfBinary, encodeText } from './text.js';

/** Elements or entries of one page that is read. */
const PAGE = 4096;

/** Byte strings of a column, one by one. */
function* stringsOf({ data, index }) {
  const ends = words(index);
  for (let i = 0; i + 1 < ends.length; i++) yield data.subarray(ends[i], ends[i + 1]);
}

function columnOf(...strings) {
  const pieces = new Pieces();
  for (const string of strings) pieces.push(string);
  return pieces.finish();
}

/** What a codec makes of a value, in memory of its own. */
export function encoded(codec, value) {
  if (value === undefined || value === null) throw new TypeError(`state does not hold ${value}`);
  const made = codec.encode(value);
  return typeof made === 'string' ? encodeText(made) : made.slice();
}

/** The list or map of one key. */
class Collection {
  /** `host`: the contract's interface for this kind, or what stands in for it. `place`: the state's number there. */
  constructor({ codec, keyCodec }, host, place) {
    this.codec = codec;
    this.keyCodec = keyCodec;
    this.host = host;
    this.place = place;
  }

  /** For the next call. The key shows when somebody asks for this state. */
  reset() {
    this.key = undefined;
    this.cleared = false;
    this.forget();
  }

  ofKey(subject) {
    this.key ??= (subject.key ?? NOTHING).slice();
  }

  /** Removes all. */
  clear() {
    this.cleared = true;
    this.forget();
  }

  /** Hands over what changed, before the host is asked for what there is. */
  flush() {
    flushAll([this]);
  }
}

export class List extends Collection {
  forget() {
    this.appended = [];
  }

  push(...elements) {
    for (const element of elements) this.appended.push(encoded(this.codec, element));
  }

  get length() {
    const stored = this.cleared ? 0 : Number(new DataView(this.host.lenMany(this.place, columnOf(this.key)).slice().buffer).getBigUint64(0, true));
    return stored + this.appended.length;
  }

  toArray() {
    return [...this];
  }

  *[Symbol.iterator]() {
    this.flush();
    let start = 0;
    do {
      const { values, next } = this.host.getPage(this.place, this.key, start, PAGE);
      for (const stored of stringsOf(values)) yield this.codec.decode(stored);
      start = Number(next);
    } while (start !== 0);
  }

  /** What is to be done at the host, for lists of one state. */
  static flush(host, place, lists) {
    const [keys, values] = [new Pieces(), new Pieces()];
    for (const { key, appended } of lists) {
      for (const element of appended) {
        keys.push(key);
        values.push(element);
      }
    }
    if (keys.count > 0) host.appendMany(place, keys.finish(), values.finish());
  }
}

export class SortedMap extends Collection {
  forget() {
    /** What the call knows, by the binary string of the map key: the value's bytes, undefined if it is absent. */
    this.known = new Map();
    /** The map keys that the host does not know of. */
    this.changed = new Set();
  }

  get(mapKey) {
    const stored = this.look(mapKey);
    return stored === undefined ? undefined : this.codec.decode(stored);
  }

  has(mapKey) {
    return this.look(mapKey) !== undefined;
  }

  set(mapKey, value) {
    this.change(mapKey, encoded(this.codec, value));
  }

  delete(mapKey) {
    this.change(mapKey, undefined);
  }

  change(mapKey, value) {
    const name = binaryOf(encoded(this.keyCodec, mapKey));
    this.known.set(name, value);
    this.changed.add(name);
  }

  look(mapKey) {
    const bytes = encoded(this.keyCodec, mapKey);
    const name = binaryOf(bytes);
    if (!this.known.has(name)) {
      const cells = this.cleared ? { ops: [0] } : this.host.getMany(this.place, columnOf(this.key), columnOf(bytes));
      this.known.set(name, cells.ops[0] === 1 ? cells.data.slice() : undefined);
    }
    return this.known.get(name);
  }

  get isEmpty() {
    this.flush();
    return this.host.isEmptyMany(this.place, columnOf(this.key))[0] === 1;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  first(range) {
    const [entry] = this.read(range, 1);
    return entry;
  }

  entries(range) {
    return this.read(range, PAGE);
  }

  *read({ from, to } = {}, page) {
    this.flush();
    const end = to === undefined ? NOTHING : encoded(this.keyCodec, to);
    let start = from === undefined ? NOTHING : encoded(this.keyCodec, from);
    for (;;) {
      const { mapKeys, values, done } = this.host.scan(this.place, this.key, start, end, page);
      const stored = [...stringsOf(values)];
      let last;
      let i = 0;
      for (const mapKey of stringsOf(mapKeys)) {
        last = mapKey;
        yield [this.keyCodec.decode(mapKey), this.codec.decode(stored[i++])];
      }
      if (done) return;
      // The next one begins right behind it.
      start = new Uint8Array(last.length + 1);
      start.set(last);
    }
  }

  static flush(host, place, maps) {
    const [removed, removedKeys, keys, mapKeys, values] = Array.from({ length: 5 }, () => new Pieces());
    for (const { key, known, changed } of maps) {
      for (const name of changed) {
        const value = known.get(name);
        (value === undefined ? removed : keys).push(key);
        (value === undefined ? removedKeys : mapKeys).push(bytesOfBinary(name));
        if (value !== undefined) values.push(value);
      }
    }
    if (removed.count > 0) host.removeMany(place, removed.finish(), removedKeys.finish());
    if (keys.count > 0) host.putMany(place, keys.finish(), mapKeys.finish(), values.finish());
  }
}

/** Hands over what changed in lists or maps of one state. */
export function flushAll(collections) {
  const touched = collections.filter(({ key }) => key !== undefined);
  if (touched.length === 0) return;
  const { host, place, constructor } = touched[0];
  const cleared = touched.filter((one) => one.cleared);
  if (cleared.length > 0) host.clearMany(place, columnOf(...cleared.map(({ key }) => key)));
  constructor.flush(host, place, touched);
  for (const one of touched) {
    one.cleared = false;
    one.forget();
  }
}

const SIGN = 1n << 63n;

/** Map keys that are whole numbers, in their order: big-endian, the sign turned over. */
function integerKey(sign, least) {
  return {
    encode(number) {
      if (!Number.isSafeInteger(number) || number < least) throw new RangeError(`${number} is no map key: it must be whole, from ${least} to 2^53`);
      const view = new DataView(new ArrayBuffer(8));
      view.setBigUint64(0, BigInt.asUintN(64, BigInt(number)) ^ sign);
      return new Uint8Array(view.buffer);
    },
    decode(stored) {
      if (stored.length !== 8) throw new Error(`a map key of ${stored.length} bytes is no number`);
      const number = Number(BigInt.asIntN(64, new DataView(stored.buffer, stored.byteOffset, 8).getBigUint64(0) ^ sign));
      if (!Number.isSafeInteger(number)) throw new RangeError('a map key is no number that is exact');
      return number;
    },
    immutable: true,
  };
}

/** Whole numbers from 0 on, as u64. */
export const unsignedKey = integerKey(0n, 0);
/** Whole numbers, as s64. */
export const signedKey = integerKey(SIGN, Number.MIN_SAFE_INTEGER);
