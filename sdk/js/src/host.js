// The host's functions. Without a host (tests) what is logged is kept.

import { encodeText } from './text.js';

const LEVELS = new Set(['trace', 'debug', 'info', 'warn', 'error']);

let kept = [];

let send = (level, message) => {
  kept.push({ level, message });
};

/** Connects the log to the host. */
export function connectLog(log) {
  send = log;
}

export function log(level, message) {
  if (!LEVELS.has(level)) throw new TypeError(`there is no log level '${level}'`);
  send(level, String(message));
}

/** What was logged without a host since the last time. */
export function takeLog() {
  const taken = kept;
  kept = [];
  return taken;
}

/** A `console` that writes to the log, for engines that have none. */
export function consoleToLog() {
  const to = (level) => (...values) => log(level, values.map(show).join(' '));
  return { log: to('info'), info: to('info'), warn: to('warn'), error: to('error'), debug: to('debug'), trace: to('trace') };
}

function show(value) {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

/** A granted folder. `functions`: the contract's interface `files`, or what stands in for it. */
export class Folder {
  constructor(functions, grant) {
    this.functions = functions;
    this.grant = grant;
  }

  append(path, bytes) {
    ask(() => this.functions.append(this.grant, path, typeof bytes === 'string' ? encodeText(bytes) : bytes));
  }

  read(path, offset, limit) {
    return ask(() => this.functions.read(this.grant, path, offset, limit));
  }

  sync(path) {
    ask(() => this.functions.sync(this.grant, path));
  }

  mkdir(path) {
    ask(() => this.functions.mkdir(this.grant, path));
  }

  rename(source, target) {
    return ask(() => this.functions.rename(this.grant, source, target));
  }

  remove(path) {
    return ask(() => this.functions.remove(this.grant, path));
  }

  exists(path) {
    return ask(() => this.functions.exists(this.grant, path));
  }

  list(path) {
    return ask(() => this.functions.list(this.grant, path));
  }
}

/** The host throws the bare text of an error: authors get an Error. */
function ask(call) {
  try {
    return call();
  } catch (thrown) {
    if (typeof thrown === 'string') throw new Error(thrown);
    throw thrown;
  }
}

/** The part of the job that this instance is. `files`: as for `Folder`; undefined if the plugin imports none. */
export function taskOf(info, files) {
  const { job, operatorName: operator, subtask, parallelism, attempt } = info;
  return { job, operator, subtask, parallelism, attempt, folder: (grant) => folderOf(files, grant) };
}

/** Checked at the first use, as the host does. */
export function folderOf(files, grant) {
  if (files === undefined) throw new Error("this plugin says nothing of folders: set `files: true` in its `info`");
  return new Folder(files, grant);
}
