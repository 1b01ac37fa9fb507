// What an operator's functions are called with: a record, a timer, or a key at the end of the input. One object serves all records
// of a call, and reads its columns when it is asked.

import { NOTHING, readHeaders, timeOfS64 } from './columns.js';

/** Something with a key, and that key's state. */
class Keyed {
  /** `column`: strings, of which number `stride * at` is the key. */
  constructor(states) {
    this.states = states;
    this.column = undefined;
    this.at = 0;
    /** The place of the key's first value among the call's. */
    this.first = 0;
  }

  state(which = 0) {
    const { states } = this;
    const place = states.places[which];
    if (place === undefined) return states.refuse(which);
    const value = states.values[this.first + place];
    if (states.hasCollections) value.ofKey(this);
    return value;
  }
}

/** A key of this subtask that holds a value, when the input has ended. */
export class EndedKey extends Keyed {
  get key() {
    return this.column.bytes(this.at);
  }

  get keyText() {
    return this.column.text(this.at, 'key');
  }
}

/** A timer that is due. */
export class Timer extends Keyed {
  constructor(states) {
    super(states);
    this.kind = undefined;
    this.input = undefined;
  }

  get key() {
    return this.input.bytes(2 * this.at);
  }

  get keyText() {
    return this.input.text(2 * this.at, 'key');
  }

  get payload() {
    return this.input.bytes(2 * this.at + 1);
  }

  get payloadText() {
    return this.input.text(2 * this.at + 1, 'payload');
  }

  get time() {
    return this.input.time(this.at);
  }
}

export class Record extends Keyed {
  constructor(states) {
    super(states);
    this.port = 0;
    this.input = undefined;
  }

  get key() {
    return this.input.keyIsNull(this.at) ? null : this.input.bytes(2 * this.at);
  }

  get value() {
    return this.input.valueIsNull(this.at) ? null : this.input.bytes(2 * this.at + 1);
  }

  get keyText() {
    const { input, at } = this;
    if (!input.plain) return input.keyText(at);
    const from = input.index[2 * at];
    const to = input.index[2 * at + 1];
    return from === to ? null : input.binary.slice(from, to);
  }

  get valueText() {
    const { input, at } = this;
    if (!input.plain) return input.valueText(at);
    return input.binary.slice(input.index[2 * at + 1], input.index[2 * at + 2]);
  }

  get time() {
    return this.input.time(this.at);
  }

  get headers() {
    return this.input.hasHeaders(this.at) ? readHeaders(this.input.headers.bytes(this.at)) : [];
  }
}

/** Sets timers of the key at hand, and takes them away. What it is told counts when the call has gone well. */
export class Timers {
  /** `service`: the contract's `timer-service`, or what stands in for it. */
  constructor(service, newBuilder) {
    this.service = service;
    this.newBuilder = newBuilder;
    this.begin();
  }

  /** `subject`: whose key it is. */
  begin(subject) {
    this.subject = subject;
    this.changes = [];
    this.clocks = {};
  }

  setEventTime(time, payload = NOTHING) {
    this.change('registerMany', 'event-time', time, payload);
  }

  setProcessingTime(time, payload = NOTHING) {
    this.change('registerMany', 'processing-time', time, payload);
  }

  deleteEventTime(time, payload = NOTHING) {
    this.change('deleteMany', 'event-time', time, payload);
  }

  deleteProcessingTime(time, payload = NOTHING) {
    this.change('deleteMany', 'processing-time', time, payload);
  }

  get watermark() {
    return this.current('event-time');
  }

  get processingTime() {
    return this.current('processing-time');
  }

  current(kind) {
    return (this.clocks[kind] ??= timeOfS64(this.service.current(kind)));
  }

  change(what, kind, time, payload) {
    let last = this.changes.at(-1);
    if (last === undefined || last.what !== what || last.kind !== kind) {
      last = { what, kind, timers: this.newBuilder() };
      this.changes.push(last);
    }
    last.timers.add(this.subject.key ?? NOTHING, payload, time, '');
  }

  /** The call has gone well: one host call for each run of the same. */
  finish() {
    for (const { what, kind, timers } of this.changes) {
      const batch = timers.takeBatch();
      this.service[what](kind, { ...batch, aux: NOTHING });
    }
  }
}
