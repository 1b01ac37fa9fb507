import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { pluginOf, world } from '../bin/build.js';
import * as sdk from '../src/index.js';
import * as testing from '../src/testing.js';

const info = { name: 'p', version: '1' };
const operator = (members, more = {}) => {
  const Operator = class P {};
  Operator.info = { ...info, ...more };
  for (const member of members) Operator.prototype[member] = () => {};
  return { default: Operator };
};
const half = (methods) => {
  const Half = class {};
  Half.info = { ...info, committableVersions: [1] };
  for (const method of methods) Half.prototype[method] = () => {};
  return Half;
};
const Writer = half(['begin', 'write', 'prepare']);
const Committer = half(['commit', 'status', 'abort', 'listDangling', 'forget']);

test('a plugin imports and exports what its class has', () => {
  for (const [module, imports, exports] of [
    [operator(['process']), ['host'], ['operator']],
    [operator(['process'], { files: true }), ['host', 'files'], ['operator']],
    [operator(['process', 'onTimer', 'onEndKey'], { states: [{ name: 's' }] }), ['host', 'timer-service'], ['operator', 'timers', 'end-of-input']],
    [operator(['process', 'onEnd']), ['host'], ['operator', 'end-of-input']],
    [operator(['process', 'snapshot', 'restore'], { states: [{ name: 'm', kind: 'map' }] }), ['host', 'map-state'], ['operator', 'checkpointed']],
    [operator(['process'], { states: [{ name: 'l', kind: 'list' }, { name: 'v' }] }), ['host', 'list-state'], ['operator']],
    [{ Writer, Committer }, ['host', 'files'], ['sink-writer', 'sink-committer']],
  ]) {
    const plugin = pluginOf(module);
    assert.deepEqual([plugin.imports, plugin.exports], [imports, exports]);
    for (const name of [...imports, ...exports]) assert.match(world(plugin), new RegExp(`weir:plugin/${name}@1\\.0\\.0;`));
  }
});

test('what is no plugin is told so', () => {
  for (const [module, words] of [
    [{}, /neither an operator/],
    [{ default: class {} }, /static info/],
    [operator([]), /no method process/],
    [operator(['process', 'onTimer']), /timers belong to keys/],
    [operator(['process'], { state: [] }), /there is no 'state'/],
    [operator(['process'], { states: [{ name: 's', kind: 'tree' }] }), /there is no kind 'tree'/],
    [operator(['process'], { states: [{ name: 's', of: 'x' }] }), /there is no 'of'/],
    [operator(['process', 'snapshot']), /only one/],
    [operator(['process'], { version: 1 }), /info.version is a string/],
    [{ Writer }, /two classes/],
    [{ Writer, Committer, ...operator(['process']) }, /make two plugins/],
    [{ Writer: half(['begin', 'write']), Committer }, /no method prepare/],
    [{ Writer, Committer: half(['commit']) }, /no method status/],
  ]) {
    assert.throws(() => pluginOf(module), words);
  }
});

test('the declarations name what there is', () => {
  for (const [file, module] of Object.entries({ 'index.d.ts': sdk, 'testing.d.ts': testing })) {
    const text = readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
    const declared = [...text.matchAll(/^export (?:declare )?(?:const|function|class) (\w+)/gm)].map(([, name]) => name);
    assert.deepEqual(declared.sort(), Object.keys(module).sort());
  }
});
