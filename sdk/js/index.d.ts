/**
 * Weir operators and sinks in JavaScript.
 *
 * A plugin is a module. An operator is its default export, a class that implements {@link Operator} (or {@link TimerOperator})
 * and has a static `info`. A sink is two classes, exported as `Writer` and `Committer`. `weir-js build` makes a component of it; tests
 * run without one, on `weir-sdk/testing`.
 */

/** What an operator is and needs: its static `info`. */
export interface Info {
  /** The plugin's own name. */
  name: string;
  /** The plugin's own version. */
  version: string;
  /** States by index. An operator with states is keyed: its input is partitioned by key. */
  states?: State[];
  /** Side outputs by index; the job file wires them as `operator.name`. */
  sideOutputs?: string[];
  /** Number of inputs that it understands; 0 means any. 1 unless it is given. */
  inputs?: number;
  /** Whether it reads or writes folders that the job grants: {@link Task.folder}. */
  files?: boolean;
}

/** A declared state, kept for each key. */
export interface State<T = any> {
  /** What a checkpoint finds it by, unique in this operator, `[a-z][a-z0-9-]*`. Renaming it is a migration. */
  name: string;
  /**
   * `value` unless it is given: one value a key, which comes with the batch and goes back with the result. `list`: elements in the order in
   * which they were appended. `map`: entries by map key, in the order of the map keys' bytes. Lists and maps ask the host when they are
   * read.
   */
  kind?: 'value' | 'list' | 'map';
  /** Version of the value's encoding, chosen by the author: raise it when the encoding changes. 1 unless it is given. */
  version?: number;
  /** How a value, element or entry becomes bytes; {@link bytes} unless it is given. */
  codec?: Codec<T>;
  /** How a map's keys become bytes, whose order is theirs; {@link text} unless it is given. */
  keyCodec?: Codec<any>;
}

/** How values become bytes. Its output is part of what a checkpoint stores. */
export interface Codec<T> {
  /** The bytes of a value, or a text that is stored as UTF-8. */
  encode(value: T): Uint8Array | string;
  /** The value of stored bytes; throws if they are none. */
  decode(stored: Uint8Array): T;
  /** True if values never change in place: then only {@link Value.set} writes. */
  immutable?: boolean;
}

/** Bytes as they are. What {@link Value.get} gives is not to be changed; `set` copies. */
export const bytes: Codec<Uint8Array>;
/** A text, as UTF-8. */
export const text: Codec<string>;
/** Anything that JSON can say. */
export const json: Codec<any>;
/** Kinds of numbers in a {@link struct}. u64 and s64 hold what a number holds exactly, ±2^53; more is an error. */
export type NumberKind = 'u8' | 'u16' | 'u32' | 's32' | 'u64' | 's64' | 'f64';
/**
 * An object of numbers, little-endian one after the other, in the order of `fields`: as `state_value!` of the Rust SDK and structs in
 * C have them, so that builds in several languages read the same state.
 */
export function struct<F extends { [field: string]: NumberKind }>(fields: F): Codec<{ [field in keyof F]: number }>;

/** Map keys that are whole numbers from 0 on, in their order: what the Rust SDK makes of a u64. */
export const unsignedKey: Codec<number>;
/** Map keys that are whole numbers, in their order: what the Rust SDK makes of an i64. */
export const signedKey: Codec<number>;

/**
 * What an operator implements, beside its static `info: Info`. What must survive belongs into state, never into the operator's own
 * fields: the host may drop an instance after any call, and calls again after a bad record.
 */
export interface Operator {
  /** Once, before all else. `config`: the job file's `config`; `{}` if there is none. */
  open?(task: Task, config: any): void;
  /**
   * Processes one record. A thrown {@link BadRecord} concerns this record: the host does with it what the job's `on_bad_record` says,
   * and makes the call again without it. A thrown {@link Retry} makes the host call again with the same input, a bounded number of
   * times. Anything else fails the job's attempt. Nothing of a call that fails is applied.
   */
  process(record: Record, out: Output): void;
  /** Input `port` has ended. Never called at a stop by signal, failure or swap, and never twice for the same input, also over restarts. */
  onEnd?(port: number, out: Output): void;
  /** After the last input has ended: once for every key of this subtask that holds a value in some state. */
  onEndKey?(ended: EndedKey, out: Output): void;
  /**
   * State of the operator itself, which belongs to no key, as parts: at each checkpoint, and before each call, whose failure leaves this
   * state as it was. It changes nothing. It is small: 1 MiB and 1,000 parts for an instance. After a trap the job goes back to its last
   * checkpoint.
   */
  snapshot?(): Part[];
  /**
   * Makes this its state, in place of what it has: after `open`, if the job resumes from a checkpoint with such state, and after a call
   * that failed. The split parts that fell to this instance, maybe none, and the broadcast ones of all instances. With `snapshot` or not
   * at all.
   */
  restore?(parts: RestoredPart[]): void;
  /** A clean end of this instance. Not called after a trap or a crash. */
  close?(): void;
}

/** A part of an operator's own state. */
export interface Part {
  /** `split`: one instance gets it, the one that gave it or, at another parallelism, any. `broadcast`: every instance does. */
  mode: 'split' | 'broadcast';
  /** Version of the bytes' encoding, chosen by the author. 1 unless it is given. */
  version?: number;
  /** Its content. */
  bytes: Uint8Array | string;
}

/** A part as it comes back. */
export interface RestoredPart {
  mode: 'split' | 'broadcast';
  version: number;
  bytes: Uint8Array;
}

/** An operator with timers for its keys: a window, a session, a time-out. It has at least one state. */
export interface TimerOperator extends Omit<Operator, 'process'> {
  /** As {@link Operator.process}; `timers` are those of the record's key. */
  process(record: Record, out: Output, timers: Timers): void;
  /** A timer is due; it is gone already. There is no record to be called bad. */
  onTimer(timer: Timer, out: Output, timers: Timers): void;
}

/** Which part of the job this instance is. */
export interface Task {
  /** The job's name. */
  job: string;
  /** The name of the operator or sink in the job file. */
  operator: string;
  /** 0 … parallelism - 1. */
  subtask: number;
  /** Number of instances that share the work. */
  parallelism: number;
  /** Number of the job's attempt, from 1; a restart raises it. */
  attempt: number;
  /** A folder that the job grants under this name (`grants.folders`). That it is granted shows at the first use. */
  folder(grant: string): Folder;
}

/** What a state is: `state<List<X>>()` a list, `state<SortedMap<K, V>>()` a map, `state<T>()` a value. */
type StateOf<T> = 0 extends 1 & T ? Value : [T] extends [List | SortedMap] ? T : Value<T>;

/** Something with a key, and that key's state. */
interface Keyed {
  /** The state of the key, by its name or index in `info.states`; the first one unless another is named. */
  state<T = any>(which?: string | number): StateOf<T>;
}

/**
 * One record. It is valid until `process` returns: one object serves all records of a call, and its bytes lie in the batch that the
 * host passed. They are not to be changed.
 */
export interface Record extends Keyed {
  /** The key's bytes; null is no key, which is not the same as an empty one. */
  readonly key: Uint8Array | null;
  /** The value's bytes; null in a compacted topic deletes the key. */
  readonly value: Uint8Array | null;
  /** The key as text, which is faster than bytes; one that is no UTF-8 makes a bad record. */
  readonly keyText: string | null;
  /** The value as text, which is faster than bytes; one that is no UTF-8 makes a bad record. */
  readonly valueText: string | null;
  /** Event time in milliseconds since the Unix epoch; beyond ±2^53 the nearest number. */
  readonly time: number;
  /** Which input it came from, in the order of the job file's `from`. */
  readonly port: number;
  /** Its headers in their order; {@link Port.forward} keeps them. */
  readonly headers: Header[];
}

/** One header of a record. Names are text by custom; several may have the same. */
export interface Header {
  name: string;
  /** Null is no value. In a header to be emitted it may be a text. */
  value: Uint8Array | string | null;
}

/** The value of one state for one key. The host reads it before the call; what changes goes back with the result. */
export interface Value<T = any> {
  /**
   * The value; undefined if there is none. An object may be changed in place: what it holds when the call ends is stored. Bytes may
   * not: {@link set} other ones.
   */
  get(): T | undefined;
  /** Sets the value to a copy of this one, and gives what {@link get} would give. */
  set(value: T): T;
  /** Deletes the value; an absent one is no error. */
  delete(): void;
}

/**
 * The list of one key. An append reads nothing, and goes to the host when the call ends; reading asks the host, some thousand elements at a
 * time. It sees what the call did.
 */
export interface List<T = any> extends Iterable<T> {
  push(...elements: T[]): void;
  readonly length: number;
  /** All elements. */
  toArray(): T[];
  /** Removes all elements. */
  clear(): void;
}

/**
 * The map of one key, in the order of the bytes of its map keys. Changes go to the host when the call ends; an entry is asked for when it is
 * first read in a call. A value that was read and changed must be `set`. It is not to be changed while it is read through.
 */
export interface SortedMap<K = any, V = any> extends Iterable<[K, V]> {
  get(key: K): V | undefined;
  has(key: K): boolean;
  set(key: K, value: V): void;
  /** Removes an entry; an absent one is no error. */
  delete(key: K): void;
  /** Entries from `from` on (which belongs to it) to `to` (which does not). */
  entries(range?: { from?: K; to?: K }): Iterable<[K, V]>;
  /** The first of these entries. */
  first(range?: { from?: K; to?: K }): [K, V] | undefined;
  readonly isEmpty: boolean;
  /** Removes all entries. */
  clear(): void;
}

/** One output. */
export interface Port {
  /** Emits a record. A key or value that is null is null; texts become UTF-8. `time`: milliseconds since the Unix epoch, whole. */
  emit(key: Uint8Array | string | null, value: Uint8Array | string | null, time: number, headers?: Header[]): void;
  /** Passes a record on as it is, headers and all; or with another value. */
  forward(record: Record, value?: Uint8Array | string | null): void;
}

/** Where records go: the main output, and side outputs. An output of any size may come from one call. */
export interface Output extends Port {
  /** A side output, by its name or index in `info.sideOutputs`. */
  side(which: string | number): Port;
}

/** A timer that is due. Valid until `onTimer` returns. To hear of it again, set it again. */
export interface Timer extends Keyed {
  /** What it waited for: the watermark of the operator's input, or the wall clock. */
  readonly kind: 'event-time' | 'processing-time';
  /** Whose it is. */
  readonly key: Uint8Array;
  readonly keyText: string;
  /** What it was set with. */
  readonly payload: Uint8Array;
  readonly payloadText: string;
  /** When it was to fire, in milliseconds since the Unix epoch. */
  readonly time: number;
}

/**
 * Sets timers of the key at hand (the record's, or that of the timer that fires), and takes them away. Nothing of it counts if the call
 * fails. A timer is (kind, key, time, payload): set twice, it fires once. A payload is empty unless it is given, 64 KiB at most.
 */
export interface Timers {
  /** For when the watermark has passed `time`. One that is due already fires right after the call. */
  setEventTime(time: number, payload?: Uint8Array | string): void;
  /** For when the wall clock has passed `time`. */
  setProcessingTime(time: number, payload?: Uint8Array | string): void;
  /** Takes a timer away that was set with the same values; if there is none, nothing happens. */
  deleteEventTime(time: number, payload?: Uint8Array | string): void;
  /** The same for the other kind. */
  deleteProcessingTime(time: number, payload?: Uint8Array | string): void;
  /** How far event time has come: -Infinity before that is known, Infinity once all input has ended. The same during a call. */
  readonly watermark: number;
  /** The wall clock, in milliseconds since the Unix epoch. The same during a call. */
  readonly processingTime: number;
}

/** A key that holds state, after the last input has ended. Valid until `onEndKey` returns. */
export interface EndedKey extends Keyed {
  readonly key: Uint8Array;
  readonly keyText: string;
}

/** This record can't be processed; the message says why. The others of the batch are still looked at. */
export class BadRecord extends Error {}

/** Transient: the host calls again with the same input, a bounded number of times. */
export class Retry extends Error {}

/** Writes to the host's log, which drops messages above a rate, and says how many. `console` goes there, too. */
export function log(level: 'trace' | 'debug' | 'info' | 'warn' | 'error', message: string): void;

/** Text of UTF-8 bytes; what is no UTF-8 becomes U+FFFD. */
export function decodeText(bytes: Uint8Array): string;

/** UTF-8 bytes of a text. */
export function encodeText(text: string): Uint8Array;

/**
 * A folder that the job granted. Paths are relative, with `/`; the empty one is the folder itself. They can't leave the folder. The
 * host owns the durability rules; an error's message says why. In {@link SinkWriter.write} only `append` and `read` may be called.
 */
export interface Folder {
  /** Appends to a file, which is made if it does not exist (its folder must). */
  append(path: string, bytes: Uint8Array | string): void;
  /** At most `limit` bytes from `offset`; fewer at the end of the file. */
  read(path: string, offset: number, limit: number): Uint8Array;
  /** Makes a file's content, or a folder's entries, durable. Returns when it is. */
  sync(path: string): void;
  /** Makes a folder and its parents, durably. An existing one is no error. */
  mkdir(path: string): void;
  /** Moves a file in one atomic step that never replaces: false, and nothing done, if the target exists. Both folders are durable when it returns true. */
  rename(source: string, target: string): boolean;
  /** Removes a file or an empty folder; false if there was none. */
  remove(path: string): boolean;
  /** Whether a file or folder is there. */
  exists(path: string): boolean;
  /** The names in a folder, sorted; empty if there is no such folder. */
  list(path: string): string[];
}

/** What a sink is: the static `info` of its writer. */
export interface SinkInfo {
  /** The plugin's own name. */
  name: string;
  /** The plugin's own version. */
  version: string;
  /** Versions of committables that this build can commit and abort. */
  committableVersions: number[];
}

/** The writing half of a sink, one for each subtask: `open` → ( `begin` → `write`* → `prepare` )* → `close`. Export it as `Writer`. */
export interface SinkWriter {
  /** Once, before all else. `config`: the job file's `config`; `{}` if there is none. */
  open?(task: Task, config: any): void;
  /** Opens the transaction that the following writes belong to: `<lineage>.<generation>.<sink>.<subtask>.<number>`, never used twice. */
  begin(transaction: string): void;
  /** Writes records into the open transaction. One object serves all records of the batch. */
  write(batch: Iterable<Record> & { readonly length: number }): void;
  /**
   * A barrier: stage durably, and say what to commit; nothing if nothing was written. Nothing may be visible outside yet. When it
   * returns, a crash of this process must not lose what was written. `checkpoint`: such as `3-17`.
   */
  prepare(checkpoint: string, endOfInput: boolean): Prepared | undefined;
  /** A clean end. What is neither prepared nor committed is given up. */
  close?(): void;
}

/** What `prepare` hands over. */
export interface Prepared {
  /** Version of `bytes`; one of `info.committableVersions`. */
  version: number;
  /** What the committer needs. */
  bytes: Uint8Array | string;
}

/** A prepared transaction, as the committer gets it, which lives in another instance, maybe in another process years later. */
export interface Committable {
  /** The identity that `begin` was given. */
  id: string;
  /** The checkpoint at which it was prepared. */
  checkpoint: string;
  /** Version of `bytes`. */
  version: number;
  bytes: Uint8Array;
}

/** The committing half of a sink, one for each sink and job: it never meets a record. Export it as `Committer`. */
export interface SinkCommitter {
  /** Once, before all else. */
  open?(task: { job: string; sink: string; folder(grant: string): Folder }, config: any): void;
  /** Idempotent. Called one by one, in order; after the first that is not committed the rest is not tried. What it throws counts as `unknown`. */
  commit(what: Committable): Outcome;
  /** What became of it, by asking the outside; changes nothing. `retry`: not committed yet, can be. */
  status(what: Committable): Outcome;
  /** Idempotent. Gives up what was staged under this identity. What it throws counts as `retry`. */
  abort(transaction: string): AbortOutcome;
  /** Every identity of this job and sink that exists outside, whatever its lineage, generation and subtask. */
  listDangling(): string[];
  /** A later completed checkpoint no longer contains it: what was kept to answer "already committed" may go. */
  forget(transaction: string): void;
  /** A clean end. */
  close?(): void;
}

/** What became of one committable; made by {@link outcome}. */
export interface Outcome {
  tag: 'committed' | 'already-committed' | 'retry' | 'unknown' | 'lost';
  val?: string;
}

/** What {@link SinkCommitter.commit} and `status` give. */
export const outcome: {
  /** Done now. */
  committed: Outcome;
  /** Was done before. */
  alreadyCommitted: Outcome;
  /** Certainly not done; try again. */
  retry(why: string): Outcome;
  /** Nobody can say; `status` is asked before the next try. */
  unknown(why: string): Outcome;
  /** Certainly not committed, and never will be. */
  lost(why: string): Outcome;
};

/** What became of an abort; made by {@link abortOutcome}. */
export interface AbortOutcome {
  tag: 'aborted' | 'committed' | 'retry';
  val?: string;
}

/** What {@link SinkCommitter.abort} gives. */
export const abortOutcome: {
  /** It is gone, now or before. */
  aborted: AbortOutcome;
  /** It is committed already, and stays so. */
  committed: AbortOutcome;
  /** Try again. */
  retry(why: string): AbortOutcome;
};
