// Runs an author's operator over the contract's batches.

import { Builder, Input, Output, Strings, words } from './columns.js';
import { BadRecord, explain, refusePromise, wireError } from './errors.js';
import { EndedKey, Record, Timer, Timers } from './record.js';
import { States, bytes, text } from './state.js';
import { encodeText } from './text.js';

const KINDS = new Set(['event-time', 'processing-time']);
const STATE_KINDS = new Set(['value', 'list', 'map']);
const MODES = new Set(['split', 'broadcast']);

/** `info` of an operator's class with its defaults; throws if it is none. */
export function infoOf(operator) {
  const { info } = operator;
  if (typeof info !== 'object' || info === null) throw new TypeError('an operator needs `static info = { name, version }`');
  const { name, version, states: declared = [], sideOutputs = [], inputs = 1, files = false, ...unknown } = info;
  for (const [what, text] of Object.entries({ name, version })) {
    if (typeof text !== 'string') throw new TypeError(`info.${what} is a string`);
  }
  const states = declared.map(({ name, kind = 'value', version = 1, codec = bytes, keyCodec = text, ...unknown }) => {
    refuseUnknown('a state in info', unknown);
    if (typeof name !== 'string') throw new TypeError('a state in info needs a name');
    if (!STATE_KINDS.has(kind)) throw new TypeError(`state '${name}': there is no kind '${kind}', only ${[...STATE_KINDS].join(', ')}`);
    return { name, kind, version, codec, keyCodec };
  });
  refuseUnknown('info', unknown);
  return { name, version, states, sideOutputs, inputs, files };
}

function refuseUnknown(what, unknown) {
  const names = Object.keys(unknown);
  if (names.length > 0) throw new TypeError(`${what}: there is no '${names[0]}'`);
}

/** The contract's `descriptor`. */
export function describe(operator) {
  const { name, version, states, sideOutputs, inputs } = infoOf(operator);
  return {
    pluginName: name,
    pluginVersion: version,
    states: states.map(({ name, kind, version }) => ({ name, kind, schemaVersion: version, prefetch: kind === 'value' })),
    sideOutputs,
    inputs,
  };
}

/** One open operator. */
export class Driver {
  /**
   * `Operator`: the author's class. `emit`, `timerService`, `list`, `map`: the host's functions, or what stands in for them; all but
   * the first only for an operator that has such.
   */
  constructor(Operator, { emit, timerService, list, map }) {
    const info = infoOf(Operator);
    this.operator = new Operator();
    this.out = new Output(info.sideOutputs, emit);
    this.states = new States(info.states, { list, map });
    this.record = new Record(this.states);
    this.timer = new Timer(this.states);
    this.endedKey = new EndedKey(this.states);
    this.timers = timerService === undefined ? undefined : new Timers(timerService, () => new Builder());
  }

  /** `config`: a JSON document. */
  open(task, config) {
    this.guard(() => refusePromise(this.operator.open?.(task, JSON.parse(config)), 'open'));
  }

  close() {
    this.operator.close?.();
  }

  /** See `checkpointed.snapshot`. */
  snapshot() {
    return this.guard(() =>
      this.operator.snapshot().map(({ mode, version = 1, bytes }) => {
        if (!MODES.has(mode)) throw new TypeError(`a part of a snapshot has mode '${mode}', not ${[...MODES].join(' or ')}`);
        return { mode, schemaVersion: version, bytes: typeof bytes === 'string' ? encodeText(bytes) : bytes };
      }),
    );
  }

  /** See `checkpointed.restore`. */
  restore(parts) {
    this.guard(() => refusePromise(this.operator.restore(parts.map(({ mode, schemaVersion, bytes }) => ({ mode, version: schemaVersion, bytes }))), 'restore'));
  }

  /** A call that changes an operator with state of its own only if it succeeds. */
  kept(call) {
    if (this.operator.snapshot === undefined) return call();
    const before = this.snapshot();
    try {
      return call();
    } catch (thrown) {
      this.restore(before);
      throw thrown;
    }
  }

  /** See `operator.process`. Throws the contract's `error`. */
  process(port, batch, keyOf, states) {
    const { record } = this;
    record.port = port;
    return this.kept(() => this.run(record, batch, keyOf, states));
  }

  /** See `timers.on-timers`. */
  onTimers(kind, due, keyOf, states) {
    const { timer } = this;
    if (!KINDS.has(kind)) throw { tag: 'fatal', val: `the host fires timers of kind '${kind}', which this SDK does not know` };
    timer.kind = kind;
    return this.kept(() => this.run(timer, due, keyOf, states));
  }

  /** One call with records or timers; `subject` is what stands for each of them. */
  run(subject, batch, keyOf, states) {
    const { operator, out, timers } = this;
    const fires = subject === this.timer;
    this.begin(subject);
    const bad = [];
    this.guard(() => {
      const input = new Input(batch);
      const { count } = input;
      const distinct = this.states.names.length > 0 ? words(keyOf) : undefined;
      const width = this.states.names.length;
      this.states.load(states, states.length > 0 || distinct === undefined ? 0 : distinct.reduce((most, key) => Math.max(most, key + 1), 0));
      subject.input = input;
      let at = 0;
      // A loop in a loop: what is caught costs nothing as long as nothing is thrown.
      while (at < count) {
        try {
          for (; at < count; at++) {
            subject.at = at;
            if (distinct !== undefined) subject.first = distinct[at] * width;
            const result = fires ? operator.onTimer(subject, out, timers) : operator.process(subject, out, timers);
            if (result !== undefined) refusePromise(result, 'it');
          }
        } catch (thrown) {
          if (!(thrown instanceof BadRecord) || fires) throw thrown;
          // The rest is looked at, too, so that the host hears of all bad records at once.
          bad.push([at++, explain(thrown)]);
          out.discardAll();
        }
      }
    });
    if (bad.length > 0) throw { tag: 'bad-input', val: bad };
    return this.finish();
  }

  /** See `end-of-input.on-end`. */
  onEnd(port) {
    this.begin();
    return this.kept(() =>
      this.guard(() => {
        refusePromise(this.operator.onEnd?.(port, this.out), 'onEnd');
        return this.out.finish([]);
      }),
    );
  }

  /** See `end-of-input.on-end-keys`. */
  onEndKeys(keys, states) {
    return this.kept(() => this.endKeys(keys, states));
  }

  endKeys(keys, states) {
    const { out, endedKey } = this;
    this.begin(endedKey);
    this.guard(() => {
      const count = keys.index.length / 4 - 1;
      this.states.load(states, count);
      if (this.operator.onEndKey === undefined) return;
      endedKey.column = new Strings(keys.data, keys.index);
      for (let at = 0; at < count; at++) {
        endedKey.at = at;
        endedKey.first = at * this.states.names.length;
        refusePromise(this.operator.onEndKey(endedKey, out), 'onEndKey');
      }
    });
    return this.finish();
  }

  /** Nothing is left of the call before. */
  begin(subject) {
    this.out.resetAll();
    this.timers?.begin(subject);
  }

  finish() {
    return this.guard(() => {
      const updates = this.states.names.length > 0 ? this.states.store() : [];
      this.timers?.finish();
      return this.out.finish(updates);
    });
  }

  guard(call) {
    try {
      return call();
    } catch (thrown) {
      throw wireError(thrown);
    }
  }
}
