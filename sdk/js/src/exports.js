// What a plugin exports: the contract's interfaces, made of an author's classes. bin/weir-js.js writes a module that calls these.

import { Driver, describe } from './driver.js';
import { connectLog, consoleToLog, taskOf } from './host.js';
import { CommitterDriver, WriterDriver } from './sink.js';

/** Connects the log, and `console` where the engine has none. */
export function connect(host) {
  connectLog(host.log);
  globalThis.console ??= consoleToLog();
}

/**
 * Interfaces of an operator. `host`, `files` and so on: the contract's imports; undefined if they are not imported.
 *
 * The interfaces share the one operator that `open` makes.
 */
export function exportOperator(Operator, { host, files, timerService, listState, mapState }) {
  let driver;
  const functions = { emit: host.emit, timerService, list: listState, map: mapState };
  return {
    operator: {
      describe: () => describe(Operator),
      open(task, config) {
        driver = new Driver(Operator, functions);
        driver.open(taskOf(task, files), config);
      },
      process: (port, input, keyOf, states) => driver.process(port, input, keyOf, states),
      close: () => driver.close(),
    },
    endOfInput: {
      onEnd: (port) => driver.onEnd(port),
      onEndKeys: (keys, states) => driver.onEndKeys(keys, states),
    },
    checkpointed: {
      snapshot: () => driver.snapshot(),
      restore: (parts) => driver.restore(parts),
    },
    timers: {
      onTimers: (kind, due, keyOf, states) => driver.onTimers(kind, due, keyOf, states),
    },
  };
}

/** Interfaces of a sink. */
export function exportSink(Writer, Committer, { files }) {
  const writer = new WriterDriver(Writer, files);
  const committer = new CommitterDriver(Committer, files);
  return {
    sinkWriter: {
      describe: () => writer.describe(),
      open: (task, config) => writer.open(task, config),
      begin: (transaction) => writer.begin(transaction),
      write: (input) => writer.write(input),
      prepare: (checkpoint, endOfInput) => writer.prepare(checkpoint, endOfInput),
      close: () => writer.close(),
    },
    sinkCommitter: {
      open: (job, sink, config) => committer.open(job, sink, config),
      commit: (what) => committer.commit(what),
      status: (what) => committer.status(what),
      abort: (what) => committer.abort(what),
      listDangling: () => committer.listDangling(),
      forget: (what) => committer.forget(what),
      close: () => committer.close(),
    },
  };
}
