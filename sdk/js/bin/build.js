// Makes a component of a module: looks what it exports, bundles it with the SDK, and puts it into a JavaScript engine.

import { cp, mkdir, mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { describe, infoOf } from '../src/driver.js';
import { sinkInfoOf } from '../src/sink.js';

export class BuildError extends Error {}

const SDK = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const CONTRACT = 'weir:plugin';
const VERSION = '1.0.0';

/** Builds `file`, writes `output`, and gives its size in bytes. */
export async function build(file, output, { wit } = {}) {
  if (!existsSync(file)) throw new BuildError(`${file}: there is no such file`);
  const scratch = await mkdtemp(join(tmpdir(), 'weir-js-'));
  try {
    const plugin = await look(file, scratch);
    const source = await bundle(entry(plugin, file), dirname(resolve(file)));
    const folder = join(scratch, 'wit');
    const from = contract(wit);
    await check(plugin, from);
    await cp(from, join(folder, 'deps', 'weir-plugin'), { recursive: true });
    await writeFile(join(folder, 'world.wit'), world(plugin));
    const component = await componentize(source, folder);
    await mkdir(dirname(resolve(output)), { recursive: true });
    // At once, so that nobody finds half a component.
    await writeFile(`${output}.tmp`, component);
    await rename(`${output}.tmp`, output);
    return component.length;
  } finally {
    await rm(scratch, { recursive: true });
  }
}

/** What a module is: { kind, imports, exports } of the contract. */
async function look(file, scratch) {
  const looked = join(scratch, 'looked.mjs');
  await writeFile(looked, await bundle(`export * as plugin from ${JSON.stringify(resolve(file))};`, SDK, true));
  const { plugin } = await import(pathToFileURL(looked));
  try {
    return pluginOf(plugin);
  } catch (error) {
    throw new BuildError(`${file}: ${error.message}`);
  }
}

/** What a module's exports make it. */
export function pluginOf({ default: Operator, Writer, Committer }) {
  if (Writer !== undefined || Committer !== undefined) {
    if (Operator !== undefined) throw new Error('it exports an operator (default) and a sink: make two plugins of it');
    if (typeof Writer !== 'function' || typeof Committer !== 'function') throw new Error('a sink exports two classes, Writer and Committer');
    sinkInfoOf(Writer);
    need(Writer, 'Writer', ['begin', 'write', 'prepare']);
    need(Committer, 'Committer', ['commit', 'status', 'abort', 'listDangling', 'forget']);
    return { kind: 'sink', imports: ['host', 'files'], exports: ['sink-writer', 'sink-committer'] };
  }
  if (typeof Operator !== 'function') throw new Error('it exports neither an operator (its default, a class) nor a sink (classes Writer and Committer)');
  const { states, files } = infoOf(Operator);
  describe(Operator);
  need(Operator, Operator.name || 'the operator', ['process']);
  const has = (method) => Operator.prototype[method] !== undefined;
  const imports = ['host'];
  const exports = ['operator'];
  if (files) imports.push('files');
  for (const kind of ['list', 'map']) {
    if (states.some((state) => state.kind === kind)) imports.push(`${kind}-state`);
  }
  if (has('snapshot') !== has('restore')) throw new Error('of snapshot and restore it has only one');
  if (has('snapshot')) exports.push('checkpointed');
  if (has('onTimer')) {
    if (states.length === 0) throw new Error('it has onTimer, but no state: timers belong to keys');
    imports.push('timer-service');
    exports.push('timers');
  }
  if (has('onEnd') || has('onEndKey')) exports.push('end-of-input');
  return { kind: 'operator', imports, exports };
}

function need(type, name, methods) {
  for (const method of methods) {
    if (typeof type.prototype?.[method] !== 'function') throw new Error(`${name} has no method ${method}`);
  }
}

/** The world that a plugin needs: nothing that it does not use. */
export function world({ imports, exports }) {
  const lines = [
    ...imports.map((name) => `  import ${CONTRACT}/${name}@${VERSION};`),
    ...exports.map((name) => `  export ${CONTRACT}/${name}@${VERSION};`),
  ];
  return `package weir:javascript;\n\nworld javascript-plugin {\n${lines.join('\n')}\n}\n`;
}

const camel = (name) => name.replace(/-([a-z])/g, (_, letter) => letter.toUpperCase());

/** The module that the engine runs. */
function entry({ kind, imports, exports }, file) {
  const author = JSON.stringify(resolve(file));
  const lines = [`import { connect, exportOperator, exportSink } from ${JSON.stringify(join(SDK, 'src/exports.js'))};`];
  for (const name of imports) lines.push(`import * as ${camel(name)} from ${JSON.stringify(`${CONTRACT}/${name}@${VERSION}`)};`);
  lines.push('connect(host);');
  const given = imports.map(camel).join(', ');
  if (kind === 'sink') {
    lines.push(`import { Writer, Committer } from ${author};`, `const all = exportSink(Writer, Committer, { ${given} });`);
  } else {
    lines.push(`import Operator from ${author};`, `const all = exportOperator(Operator, { ${given} });`);
  }
  for (const name of exports) lines.push(`export const ${camel(name)} = all.${camel(name)};`);
  return lines.join('\n');
}

/** One module of many. `native`: for node, to be looked at. */
async function bundle(contents, resolveDir, native = false) {
  const { build } = load('esbuild');
  try {
    const { outputFiles } = await build({
      stdin: { contents, resolveDir, sourcefile: 'weir-entry.js' },
      bundle: true,
      write: false,
      format: 'esm',
      platform: native ? 'node' : 'neutral',
      mainFields: ['module', 'main'],
      target: 'es2023',
      external: [`${CONTRACT}/*`],
      logLevel: 'silent',
    });
    return outputFiles[0].text;
  } catch (error) {
    const found = error.errors?.map(({ text, location }) => (location ? `${location.file}:${location.line}: ${text}` : text));
    throw found === undefined ? error : new BuildError(found.join('\n'));
  }
}

async function componentize(jsSource, witPath) {
  const tool = load('componentize-qjs');
  // Without `sync` the component would ask for the component model's async calls, which the host does not speak.
  const { component } = await tool.componentize({ jsSource, witPath, world: 'javascript-plugin', sync: true });
  return component;
}

/** A build tool: it lies beside the SDK or above it, or in the folder that WEIR_JS_TOOLS names. */
function load(name) {
  const { WEIR_JS_TOOLS } = process.env;
  const require = createRequire(WEIR_JS_TOOLS ? join(resolve(WEIR_JS_TOOLS), 'package.json') : import.meta.url);
  try {
    return require(name);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new BuildError(`${name} is not there (${error.message.split('\n')[0]}): npm install`);
  }
}

/** Refuses what this contract does not have yet. */
async function check({ imports, exports }, folder) {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.wit'));
  const text = (await Promise.all(files.map((name) => readFile(join(folder, name), 'utf8')))).join('\n');
  for (const name of [...imports, ...exports]) {
    if (!new RegExp(`^interface ${name} {`, 'm').test(text)) throw new BuildError(`it needs interface ${name}, which the contract in ${folder} does not have`);
  }
}

/** The folder with the contract's WIT: as given, in the SDK, or where the repository has it. */
function contract(given) {
  const places = given === undefined ? ['wit', '../wit', '../../wit'].map((place) => resolve(SDK, place)) : [given];
  const found = places.find((place) => existsSync(join(place, 'types.wit')));
  if (found === undefined) throw new BuildError(`there is no contract (types.wit and others) in ${places.join(' or ')}: name its folder with --wit`);
  return found;
}
