// Lists and maps of a test, as the host keeps them.

import { words } from './columns.js';
import { Pieces, binaryOf, bytesOf, bytesOfBinary } from './text.js';

/** A column as binary strings. */
function binaries({ data, index }) {
  const ends = words(index);
  return Array.from({ length: ends.length - 1 }, (_, i) => binaryOf(data.subarray(ends[i], ends[i + 1])));
}

function column(binaryStrings) {
  const pieces = new Pieces();
  for (const binary of binaryStrings) pieces.pushBinary(binary);
  return pieces.finish();
}

/** Elements or entries of a page, so few that tests see several. */
const PAGE = 2;

/** The contract's `list-state`. `store(place)`: the lists by key, which it may change; `check`: throws for keys that are none of the call's. */
export function lists(store, check) {
  const listOf = (place, key) => store(place).get(check(key)) ?? [];
  return {
    appendMany(place, keys, values) {
      const elements = binaries(values);
      binaries(keys).forEach((key, i) => store(place).set(check(key), [...listOf(place, key), elements[i]]));
    },
    getPage(place, key, start, limit) {
      const list = listOf(place, binaryOf(key));
      const end = start + Math.min(limit, PAGE);
      return { values: column(list.slice(start, end)), next: end < list.length ? end : 0 };
    },
    lenMany: (place, keys) => bytesOf(BigUint64Array.from(binaries(keys), (key) => BigInt(listOf(place, key).length))),
    clearMany(place, keys) {
      for (const key of binaries(keys)) store(place).delete(check(key));
    },
  };
}

/** The contract's `map-state`. */
export function maps(store, check) {
  const mapOf = (place, key) => store(place).get(check(key)) ?? new Map();
  const order = ([a], [b]) => (a < b ? -1 : 1);
  return {
    getMany(place, keys, mapKeys) {
      const names = binaries(mapKeys);
      const found = binaries(keys).map((key, i) => mapOf(place, key).get(names[i]));
      return { ops: Uint8Array.from(found, (value) => (value === undefined ? 0 : 1)), ...column(found.map((value) => value ?? '')) };
    },
    putMany(place, keys, mapKeys, values) {
      const [names, all] = [binaries(mapKeys), binaries(values)];
      binaries(keys).forEach((key, i) => store(place).set(key, new Map(mapOf(place, key)).set(names[i], all[i])));
    },
    removeMany(place, keys, mapKeys) {
      const names = binaries(mapKeys);
      binaries(keys).forEach((key, i) => {
        const left = new Map(mapOf(place, key));
        left.delete(names[i]);
        if (left.size > 0) store(place).set(key, left);
        else store(place).delete(key);
      });
    },
    scan(place, key, start, end, limit) {
      const [first, last] = [binaryOf(start), binaryOf(end)];
      const range = [...mapOf(place, binaryOf(key))].filter(([name]) => name >= first && (last === '' || name < last)).sort(order);
      const page = range.slice(0, Math.min(limit, PAGE));
      return { mapKeys: column(page.map(([name]) => name)), values: column(page.map(([, value]) => value)), done: page.length === range.length };
    },
    isEmptyMany: (place, keys) => Uint8Array.from(binaries(keys), (key) => (mapOf(place, key).size === 0 ? 1 : 0)),
    clearMany(place, keys) {
      for (const key of binaries(keys)) store(place).delete(check(key));
    },
  };
}

/** What a test looks at: the list, or the entries in their order. */
export function shown({ kind, codec, keyCodec }, kept) {
  if (kind === 'list') return (kept ?? []).map((element) => codec.decode(bytesOfBinary(element)));
  const entries = [...(kept ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, value]) => [keyCodec.decode(bytesOfBinary(name)), codec.decode(bytesOfBinary(value))]);
}
