/** Runs operators and sinks in tests as the host does, in memory: no host, no Wasm. */

import type { AbortOutcome, Committable, Header, Info, Operator, Outcome, RestoredPart, SinkCommitter, SinkInfo, SinkWriter, TimerOperator } from './index.js';

/** A record to be sent. */
export interface Sent {
  key: Uint8Array | string | null;
  value: Uint8Array | string | null;
  time: number;
  headers: Header[];
}

/** Makes a record to be sent. */
export function record(key: Uint8Array | string | null, value: Uint8Array | string | null, time?: number, headers?: Header[]): Sent;

/** A record that came out. */
export interface Emitted {
  key: Uint8Array | null;
  value: Uint8Array | null;
  keyText: string | null;
  valueText: string | null;
  time: number;
  headers: Header[];
}

/** How a call failed. Nothing of it was applied. */
export class CallFailed extends Error {
  readonly kind: 'bad-input' | 'retry' | 'fatal';
  /** Why records are bad, by their index in the batch. */
  readonly bad: Map<number, string>;
}

/** An open operator: whole batches with prefetched state, and nothing of a call that fails is applied. */
export class Harness {
  /** Opens an operator. `folders`: those that are granted, for one whose `info` says `files: true`. */
  constructor(operator: { new (): Operator | TimerOperator; info: Info }, config?: any, options?: { folders?: MemoryFolders });
  /** Sends one batch to an input. What is due already fires right after it. Throws {@link CallFailed}. */
  send(port: number, ...records: Sent[]): void;
  /** Sends records in batches of `size`: a check that the batching does not matter. */
  sendInBatches(port: number, size: number, records: Sent[]): void;
  /** Event time has come so far: fires what is due, some timers a call. */
  advanceWatermark(to: number): void;
  /** The wall clock shows this: fires what is due, some timers a call. */
  advanceProcessingTime(to: number): void;
  /** Number of timers that are set. */
  readonly timers: number;
  /** Fires every timer of event time, ends all inputs in order, then every key that holds state, some keys a call. */
  end(): void;
  /** What came out of the main output, or of a side output, since it was last asked. */
  take(side?: string | number): Emitted[];
  /** The stored value of a key; undefined if there is none. Of a list its elements, of a map its entries. */
  state(which: string | number, key: Uint8Array | string): any;
  /** The bytes of a stored value. */
  stored(which: string | number, key: Uint8Array | string): Uint8Array | undefined;
  /** Closes the operator, and opens another one on the same state and timers: what a restart does. */
  reopen(config?: any): void;
  /** The operator's own state, as a checkpoint takes it. */
  snapshot(): RestoredPart[];
  /** Gives it to an operator that was just opened. */
  restore(parts: RestoredPart[]): void;
  close(): void;
}

/** A sink in a test: one open writer, and a fresh committer for every call, as after a restart. */
export class SinkHarness {
  /** Opens the writer. `sink`: a module with a sink. */
  constructor(
    sink: { Writer: { new (): SinkWriter; info: SinkInfo }; Committer: { new (): SinkCommitter } },
    folders: MemoryFolders,
    config?: any,
  );
  begin(transaction: string): void;
  /** Writes one batch. */
  write(...records: Sent[]): void;
  /** Prepares the open transaction. */
  prepare(checkpoint: string, endOfInput?: boolean): Committable | undefined;
  commit(...what: Committable[]): Outcome[];
  status(...what: Committable[]): Outcome[];
  abort(...transactions: string[]): AbortOutcome[];
  listDangling(): string[];
  forget(...transactions: string[]): void;
}

/** Granted folders in memory that can lose power: what was not synced is then gone. */
export class MemoryFolders {
  constructor(...grants: string[]);
  /** Lets this many more calls succeed; then every call fails until {@link crash}. */
  failAfter(calls: number): void;
  /** Loses power. Calls work again if they failed before. */
  crash(): void;
  /** Every file under a grant with its content as text, by path. */
  files(grant: string): { [path: string]: string };
}

/** What was logged since it was last asked. */
export function takeLog(): { level: string; message: string }[];
