// The contract's columns: batches that came in, and batches under construction. See wit/types.wit.

import { BadRecord } from './errors.js';
import { Pieces, binaryOf, bytesOf, decodeText, doubled, isAscii, textOfBinary } from './text.js';

/** Bytes of keys, values and headers at which a batch is handed over in the middle of a call. */
const CHUNK_BYTES = 256 << 10;

const TAG_MARKS = 1;
const TAG_HEADERS = 2;
const MARK_KEY_PRESENT = 1;
const MARK_VALUE_NULL = 2;
const NULL_HEADER = 0xffffffff;

const WORD = 0x1_0000_0000;

export const NOTHING = new Uint8Array(0);
export const NO_BATCH = { count: 0, data: NOTHING, index: NOTHING, times: NOTHING, aux: NOTHING };

/** Packed u32, which may lie unaligned. */
export function words(bytes) {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Uint32Array(aligned.buffer, aligned.byteOffset, aligned.length >> 2);
}

/** Byte strings that came in, one after the other. */
export class Strings {
  constructor(data, index) {
    this.data = data;
    this.index = words(index);
    this.binary = undefined;
    this.ascii = false;
  }

  /** Bytes of string `i`; a view. */
  bytes(i) {
    return this.data.subarray(this.index[i], this.index[i + 1]);
  }

  isEmpty(i) {
    return this.index[i] === this.index[i + 1];
  }

  /** The same as a binary string. */
  binaryAt(i) {
    if (this.binary === undefined) this.decode();
    return this.binary.slice(this.index[i], this.index[i + 1]);
  }

  /** String `i` as text; `what` it is if it can't be one. */
  text(i, what) {
    const binary = this.binaryAt(i);
    if (this.ascii) return binary;
    const text = textOfBinary(binary);
    if (text === undefined) throw new BadRecord(`the ${what} is no UTF-8`);
    return text;
  }

  /** All at once: see text.js. */
  decode() {
    this.binary = binaryOf(this.data);
    this.ascii = isAscii(this.data);
  }
}

/** A batch of records that came in. */
export class Input extends Strings {
  constructor(batch) {
    super(batch.data, batch.index);
    this.count = batch.count;
    this.times = words(batch.times);
    this.marks = undefined;
    this.headers = undefined;
    if (batch.aux.length > 0) this.readBlocks(batch.aux);
    /** All is decoded, ASCII, and nothing is marked: keys and values are slices of `binary`. */
    this.plain = false;
  }

  decode() {
    super.decode();
    this.plain = this.ascii && this.marks === undefined;
  }

  readBlocks(aux) {
    const view = new DataView(aux.buffer, aux.byteOffset, aux.length);
    for (let at = 0; at < aux.length; ) {
      const tag = view.getUint16(at, true);
      const from = at + 6;
      const to = from + view.getUint32(at + 2, true);
      if (tag === TAG_MARKS) this.marks = aux.subarray(from, to);
      if (tag === TAG_HEADERS) {
        const middle = from + 4 * (this.count + 1);
        this.headers = new Strings(aux.subarray(middle, to), aux.subarray(from, middle));
      }
      at = to;
    }
  }

  /** Milliseconds since the Unix epoch; beyond 2^53 the nearest number. */
  time(i) {
    return (this.times[2 * i + 1] | 0) * WORD + this.times[2 * i];
  }

  keyIsNull(i) {
    return this.isEmpty(2 * i) && (this.marks === undefined || (this.marks[i] & MARK_KEY_PRESENT) === 0);
  }

  valueIsNull(i) {
    return this.marks !== undefined && (this.marks[i] & MARK_VALUE_NULL) !== 0;
  }

  keyText(i) {
    return this.keyIsNull(i) ? null : this.text(2 * i, 'key');
  }

  valueText(i) {
    return this.valueIsNull(i) ? null : this.text(2 * i + 1, 'value');
  }

  hasHeaders(i) {
    return this.headers !== undefined && !this.headers.isEmpty(i);
  }
}

/** The headers that lie in `bytes`. */
export function readHeaders(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const headers = [];
  let at = 0;
  const take = () => {
    const length = view.getUint32(at, true);
    at += 4;
    if (length === NULL_HEADER) return null;
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const name = decodeText(take());
    headers.push({ name, value: take() });
  }
  return headers;
}

/** Headers as the contract packs them, as a binary string. */
export function packHeaders(headers) {
  let packed = '';
  for (const { name, value } of headers) {
    packed += packHeaderPart(name) + packHeaderPart(value ?? null);
  }
  return packed;
}

function packHeaderPart(part) {
  if (part === null) return '\xff\xff\xff\xff';
  const pieces = new Pieces();
  pieces.push(part);
  const binary = binaryOf(pieces.finish().data);
  return binaryOf(bytesOf(new Uint32Array([binary.length]))) + binary;
}

const LEAST = -(2n ** 63n);
const GREATEST = 2n ** 63n - 1n;

function clampToS64(time) {
  if (time < LEAST) return LEAST;
  return time > GREATEST ? GREATEST : time;
}

/** A time that means "not yet known" or "for ever" where a number can't be that great. */
export function timeOfS64(time) {
  const number = Number(time);
  if (number <= -(2 ** 63)) return -Infinity;
  return number >= 2 ** 63 ? Infinity : number;
}

/** Records under construction: keys and values are its pieces. */
export class Builder extends Pieces {
  constructor() {
    super();
    this.headers = new Pieces();
    /** Event times, low and high word of each. */
    this.times = new Uint32Array(64);
    // Times of this high word are written without further ado.
    this.high = 0;
    this.base = 0;
  }

  clear() {
    super.clear();
    this.records = 0;
    /** Undefined until the first record that has one. */
    this.marks = undefined;
    this.headers?.clear();
    /** No record has more than key, value and time. */
    this.bare = true;
  }

  /** `packed`: headers as a binary string, '' for none. */
  add(key, value, time, packed) {
    this.addTime(time);
    this.push(key);
    this.push(value);
    const hasEmptyKey = key !== null && key.length === 0;
    this.note((hasEmptyKey ? MARK_KEY_PRESENT : 0) | (value === null ? MARK_VALUE_NULL : 0), packed);
  }

  /** The common case in one function, since calls are what costs; false, and nothing done, if it is none. */
  addPlain(key, value, time) {
    const low = time - this.base;
    if (!this.bare || typeof key !== 'string' || typeof value !== 'string' || key === '' || low >>> 0 !== low) return false;
    return this.write(key, value, low, this.high);
  }

  /** A record without more than this; false, and nothing done, if there is no room. */
  write(key, value, low, high) {
    const { strings, offsets, times, records } = this;
    const at = 2 * records;
    if (at + 2 >= offsets.length || at + 2 >= times.length) return false;
    times[at] = low;
    times[at + 1] = high;
    strings[at] = key;
    strings[at + 1] = value;
    const middle = this.length + key.length;
    offsets[at + 1] = middle;
    offsets[at + 2] = this.length = middle + value.length;
    this.records = records + 1;
    return true;
  }

  /** `forward` of the common case; false, and nothing done, if it is none. */
  forwardPlain(input, i, value) {
    if (!input.plain || !this.bare || input.headers !== undefined || (value !== undefined && typeof value !== 'string')) return false;
    const { binary, index, times } = input;
    const middle = index[2 * i + 1];
    const key = binary.slice(index[2 * i], middle);
    return this.write(key, value === undefined ? binary.slice(middle, index[2 * i + 2]) : value, times[2 * i], times[2 * i + 1]);
  }

  addTime(time) {
    if (!Number.isInteger(time)) {
      throw new TypeError(`an event time is a whole number of milliseconds, not ${typeof time === 'number' ? time : typeof time}`);
    }
    const low = time - this.base;
    if (low >>> 0 === low) return this.addWords(low, this.high);
    const [first, second] = new Uint32Array(new BigInt64Array([clampToS64(BigInt(time))]).buffer);
    this.high = second;
    this.base = (second | 0) * WORD;
    this.addWords(first, second);
  }

  /** A time as it came in, to the last bit. */
  addWords(low, high) {
    const at = 2 * this.records;
    if (at + 2 > this.times.length) this.times = doubled(this.times);
    this.times[at] = low;
    this.times[at + 1] = high;
  }

  /** Record `i` of a batch as it is; `value`: another one in place of its own, unless undefined. */
  forward(input, i, value) {
    this.addWords(input.times[2 * i], input.times[2 * i + 1]);
    this.forwardString(input, 2 * i);
    let mark = input.marks === undefined ? 0 : input.marks[i];
    if (value === undefined) this.forwardString(input, 2 * i + 1);
    else {
      this.push(value);
      mark = (mark & MARK_KEY_PRESENT) | (value === null ? MARK_VALUE_NULL : 0);
    }
    this.note(mark, input.hasHeaders(i) ? input.headers.binaryAt(i) : '');
  }

  forwardString(strings, i) {
    const binary = strings.binaryAt(i);
    if (strings.ascii) this.pushString(binary);
    else this.pushBinary(binary);
  }

  /** Ends a record with what it has beside key, value and time. */
  note(mark, packed) {
    if (mark !== 0 && this.marks === undefined) {
      this.marks = new Array(this.records).fill(0);
      this.bare = false;
    }
    if (this.marks !== undefined) this.marks.push(mark);
    if (packed !== '' || this.headers.count > 0) {
      this.bare = false;
      while (this.headers.count < this.records) this.headers.pushBinary('');
      this.headers.pushBinary(packed);
    }
    this.records += 1;
  }

  takeBatch() {
    if (this.records === 0) return NO_BATCH;
    const batch = { count: this.records, ...this.finish(), times: bytesOf(this.times.slice(0, 2 * this.records)), aux: this.blocks() };
    this.clear();
    return batch;
  }

  blocks() {
    let blocks = NOTHING;
    if (this.marks !== undefined) blocks = block(TAG_MARKS, [new Uint8Array(this.marks)]);
    if (this.headers.count > 0) {
      const { data, index } = this.headers.finish();
      blocks = concat([blocks, block(TAG_HEADERS, [index, data])]);
    }
    return blocks;
  }
}

function block(tag, parts) {
  const head = new DataView(new ArrayBuffer(6));
  head.setUint16(0, tag, true);
  head.setUint32(2, parts.reduce((length, part) => length + part.length, 0), true);
  return concat([bytesOf(head), ...parts]);
}

function concat(parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** One output: the main one, or a side output. */
export class Port {
  /** `number`, `emit`: see `host.emit` in the contract. */
  constructor(number, emit) {
    this.number = number;
    this.handOver = emit;
    this.builder = new Builder();
    this.discard = false;
  }

  emit(key, value, time, headers) {
    if (this.discard) return;
    const { builder } = this;
    if (headers !== undefined || !builder.addPlain(key, value, time)) {
      builder.add(key, value, time, headers === undefined ? '' : packHeaders(headers));
    }
    if (builder.length >= CHUNK_BYTES || !builder.bare) this.handOverIfLarge();
  }

  forward(record, value) {
    if (this.discard) return;
    const { builder } = this;
    if (!builder.forwardPlain(record.input, record.at, value)) builder.forward(record.input, record.at, value);
    if (builder.length >= CHUNK_BYTES || !builder.bare) this.handOverIfLarge();
  }

  handOverIfLarge() {
    const { builder } = this;
    if (builder.length + builder.headers.length >= CHUNK_BYTES) this.handOver(this.number, builder.takeBatch());
  }

  reset() {
    this.builder.clear();
    this.discard = false;
  }
}

/** Where records go. */
export class Output extends Port {
  constructor(sideOutputs, emit) {
    super(0, emit);
    this.ports = [this];
    this.sides = Object.create(null);
    sideOutputs.forEach((name, i) => {
      const port = new Port(i + 1, emit);
      this.ports.push(port);
      this.sides[i] = this.sides[name] = port;
    });
  }

  side(which) {
    const port = this.sides[which];
    if (port === undefined) throw new RangeError(`there is no side output '${which}': sideOutputs in info declares them`);
    return port;
  }

  resetAll() {
    for (const port of this.ports) port.reset();
  }

  /** The call fails: what it still gives would be thrown away. */
  discardAll() {
    for (const port of this.ports) port.discard = true;
  }

  /** The contract's `output`. */
  finish(updates) {
    const main = this.builder.takeBatch();
    const sides = [];
    for (let i = 1; i < this.ports.length; i++) {
      const { builder } = this.ports[i];
      if (builder.records > 0) sides.push({ port: i - 1, records: builder.takeBatch() });
    }
    return { main, sides, updates };
  }
}
