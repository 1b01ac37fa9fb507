// Runs operators and sinks in tests as the host does, in memory: no host, no Wasm.

import { Builder, Input, packHeaders, readHeaders } from './columns.js';
import { Driver, infoOf } from './driver.js';
import { taskOf, takeLog } from './host.js';
import { CommitterDriver, WriterDriver } from './sink.js';
import { Pieces, binaryOf, bytesOf, bytesOfBinary, decodeText } from './text.js';
import { lists, maps, shown } from './testing_collections.js';
import { MemoryFolders } from './testing_folders.js';

export { MemoryFolders, takeLog };

/** How a call failed. Nothing of it was applied. */
export class CallFailed extends Error {
  constructor({ tag, val }) {
    super(tag === 'bad-input' ? `bad records: ${val.map(([index, why]) => `${index}: ${why}`).join('; ')}` : `${tag}: ${val}`);
    this.kind = tag;
    /** Reasons by index. */
    this.bad = tag === 'bad-input' ? new Map(val) : new Map();
  }

  get name() {
    return 'CallFailed';
  }
}

function call(run) {
  try {
    return run();
  } catch (thrown) {
    throw typeof thrown?.tag === 'string' ? new CallFailed(thrown) : thrown;
  }
}

const KEYS_A_CALL = 3;
const FOREVER = 2 ** 63;

/** The least and greatest s64 stand for what the clock does not say. */
const s64 = (time) => Math.max(-FOREVER, Math.min(FOREVER, time));

export function record(key, value, time = 0, headers = []) {
  return { key, value, time, headers };
}

/** A batch of test records as the host makes it: with the distinct key of each record, and the distinct keys. */
function pack(records) {
  const builder = new Builder();
  const places = new Map();
  const keyOf = new Uint32Array(records.length);
  records.forEach(({ key = null, value = null, time = 0, headers = [] }, i) => {
    builder.add(key, value, time, packHeaders(headers));
    const own = binaryOfPiece(key);
    if (!places.has(own)) places.set(own, places.size);
    keyOf[i] = places.get(own);
  });
  return { batch: builder.takeBatch(), keyOf: bytesOf(keyOf), keys: [...places.keys()] };
}

function binaryOfPiece(piece) {
  const pieces = new Pieces();
  pieces.push(piece);
  return binaryOf(pieces.finish().data);
}

/** What came out, as tests look at it. */
function unpack(batch) {
  const input = batch.count === 0 ? { count: 0 } : new Input(batch);
  return Array.from({ length: input.count }, (_, i) => {
    const key = input.keyIsNull(i) ? null : input.bytes(2 * i).slice();
    const value = input.valueIsNull(i) ? null : input.bytes(2 * i + 1).slice();
    return {
      key,
      value,
      keyText: key === null ? null : decodeText(key),
      valueText: value === null ? null : decodeText(value),
      time: input.time(i),
      headers: input.hasHeaders(i) ? readHeaders(input.headers.bytes(i)) : [],
    };
  });
}

/** Timers that are set, as the host keeps them. */
class Queue {
  constructor() {
    this.set = new Map();
    this.clocks = { 'event-time': -FOREVER, 'processing-time': 0 };
    this.pending = [];
  }

  /** The contract's `timer-service`. */
  service() {
    return {
      registerMany: (kind, timers) => this.pending.push({ kind, timers, sets: true }),
      deleteMany: (kind, timers) => this.pending.push({ kind, timers, sets: false }),
      current: (kind) => this.clocks[kind],
    };
  }

  apply(keys) {
    for (const { kind, timers, sets } of this.pending) {
      for (const { key, value, time } of unpack(timers)) {
        const own = binaryOf(key ?? new Uint8Array(0));
        if (!keys.includes(own)) throw new Error('a timer for a key that is none of the running call: the host would trap');
        const payload = binaryOf(value);
        const name = JSON.stringify([kind, time, own, payload]);
        if (sets) this.set.set(name, { kind, time, key: own, payload });
        else this.set.delete(name);
      }
    }
    this.pending = [];
  }

  take(kind) {
    const due = [...this.set].filter(([, timer]) => timer.kind === kind && timer.time <= this.clocks[kind]);
    const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    due.sort(([, a], [, b]) => a.time - b.time || order(a.key, b.key) || order(a.payload, b.payload));
    return due.slice(0, KEYS_A_CALL).map(([name, timer]) => {
      this.set.delete(name);
      return record(bytesOfBinary(timer.key), bytesOfBinary(timer.payload), timer.time);
    });
  }
}

export class Harness {
  constructor(Operator, config = {}, { folders } = {}) {
    this.Operator = Operator;
    this.info = infoOf(Operator);
    this.folders = folders;
    this.stores = this.info.states.map(() => new Map());
    this.queue = new Queue();
    this.pending = [];
    this.outputs = Array.from({ length: 1 + this.info.sideOutputs.length }, () => []);
    this.start(config);
  }

  start(config) {
    const emit = (port, records) => this.pending.push([port, records]);
    const timerService = this.Operator.prototype.onTimer === undefined ? undefined : this.queue.service();
    const [store, check] = [(place) => this.stores[place], (key) => this.check(key)];
    this.driver = new Driver(this.Operator, { emit, timerService, list: lists(store, check), map: maps(store, check) });
    const info = { job: 'test', operatorName: 'operator', subtask: 0, parallelism: 1, attempt: 1 };
    call(() => this.driver.open(taskOf(info, this.info.files ? this.folders?.functions() : undefined), JSON.stringify(config)));
  }

  /** Closes the operator, and opens another one on the same state and timers: what a restart does. */
  reopen(config = {}) {
    this.driver.close();
    this.start(config);
  }

  send(port, ...records) {
    const { batch, keyOf, keys } = pack(records);
    if (batch.count === 0) return;
    this.run(keys, (states) => this.driver.process(port, batch, this.stores.length > 0 ? keyOf : new Uint8Array(0), states));
    this.fire();
  }

  sendInBatches(port, size, records) {
    for (let at = 0; at < records.length; at += size) this.send(port, ...records.slice(at, at + size));
  }

  advanceWatermark(to) {
    this.queue.clocks['event-time'] = s64(to);
    this.fire();
  }

  advanceProcessingTime(to) {
    this.queue.clocks['processing-time'] = s64(to);
    this.fire();
  }

  get timers() {
    return this.queue.set.size;
  }

  fire() {
    for (const kind of ['event-time', 'processing-time']) {
      for (let due = this.queue.take(kind); due.length > 0; due = this.queue.take(kind)) {
        const { batch, keyOf, keys } = pack(due);
        this.run(keys, (states) => this.driver.onTimers(kind, batch, keyOf, states));
      }
    }
  }

  end() {
    this.advanceWatermark(Infinity);
    for (let port = 0; port < Math.max(1, this.info.inputs); port++) this.run([], () => this.driver.onEnd(port));
    const keys = [...new Set(this.stores.flatMap((store) => [...store.keys()]))].sort();
    for (let at = 0; at < keys.length; at += KEYS_A_CALL) {
      const some = keys.slice(at, at + KEYS_A_CALL);
      const column = new Pieces();
      for (const key of some) column.pushBinary(key);
      this.run(some, (states) => this.driver.onEndKeys(column.finish(), states));
    }
  }

  take(side) {
    const port = side === undefined ? 0 : 1 + (typeof side === 'number' ? side : this.info.sideOutputs.indexOf(side));
    if (this.outputs[port] === undefined || (side !== undefined && port === 0)) throw new RangeError(`there is no side output '${side}'`);
    return this.outputs[port].splice(0);
  }

  state(which, key) {
    const declared = this.info.states[this.driver.states.place(which)];
    const stored = this.stored(which, key);
    if (declared.kind !== 'value') return shown(declared, stored);
    return stored === undefined ? undefined : declared.codec.decode(stored);
  }

  stored(which, key) {
    return this.stores[this.driver.states.place(which)].get(binaryOfPiece(key));
  }

  snapshot() {
    return call(() => this.driver.snapshot()).map(({ mode, schemaVersion: version, bytes }) => ({ mode, version, bytes }));
  }

  restore(parts) {
    call(() => this.driver.restore(parts.map(({ mode, version, bytes }) => ({ mode, schemaVersion: version, bytes }))));
  }

  close() {
    this.driver.close();
  }

  check(key) {
    if (!this.keys.includes(key)) throw new Error('state of a key that is none of the running call: the host would trap');
    return key;
  }

  /** One call: applies what it gave, or nothing of it. */
  run(keys, process) {
    this.pending = [];
    this.queue.pending = [];
    this.keys = keys;
    const before = this.stores.map((store) => new Map(store));
    const prefetched = this.stores.filter((_, i) => this.info.states[i].kind === 'value');
    const states = prefetched.map((store) => {
      const pieces = new Pieces();
      const ops = Uint8Array.from(keys, (key) => (store.has(key) ? 1 : 0));
      for (const key of keys) pieces.push(store.get(key) ?? null);
      return { ops, ...pieces.finish() };
    });
    let output;
    try {
      output = call(() => process(states));
    } catch (error) {
      this.stores = before;
      throw error;
    }
    for (const [port, records] of this.pending) this.outputs[port].push(...unpack(records));
    this.outputs[0].push(...unpack(output.main));
    for (const { port, records } of output.sides) this.outputs[port + 1].push(...unpack(records));
    output.updates.forEach(({ ops, data, index }, i) => {
      const ends = new Uint32Array(index.slice().buffer);
      keys.forEach((key, k) => {
        if (ops[k] === 1) prefetched[i].set(key, data.slice(ends[k], ends[k + 1]));
        if (ops[k] === 2) prefetched[i].delete(key);
      });
    });
    this.queue.apply(keys);
  }
}

/** A sink in a test: one open writer, and a fresh committer for every call, as after a restart. */
export class SinkHarness {
  constructor({ Writer, Committer }, folders, config = {}) {
    this.Committer = Committer;
    this.folders = folders;
    this.config = JSON.stringify(config);
    this.writer = new WriterDriver(Writer, folders.functions());
    this.transaction = undefined;
    const info = { job: 'test', operatorName: 'sink', subtask: 0, parallelism: 1, attempt: 1 };
    call(() => this.writer.open(info, this.config));
  }

  begin(transaction) {
    this.transaction = transaction;
    call(() => this.writer.begin(transaction));
  }

  write(...records) {
    this.folders.writing = true;
    try {
      call(() => this.writer.write(pack(records).batch));
    } finally {
      this.folders.writing = false;
    }
  }

  prepare(checkpoint, endOfInput = false) {
    if (this.transaction === undefined) throw new Error('no transaction is open');
    const id = this.transaction;
    this.transaction = undefined;
    const prepared = call(() => this.writer.prepare(checkpoint, endOfInput));
    return prepared === null ? undefined : { id, checkpoint, ...prepared };
  }

  commit(...what) {
    return this.committer().commit(what);
  }

  status(...what) {
    return this.committer().status(what);
  }

  abort(...transactions) {
    return this.committer().abort(transactions);
  }

  listDangling() {
    return call(() => this.committer().listDangling());
  }

  forget(...transactions) {
    call(() => this.committer().forget(transactions));
  }

  committer() {
    const committer = new CommitterDriver(this.Committer, this.folders.functions());
    call(() => committer.open('test', 'sink', this.config));
    return committer;
  }
}
