#!/usr/bin/env node
// Builds a plugin: `weir-js build src/operator.js -o operator.wasm`.

import { parseArgs } from 'node:util';
import { build, BuildError } from './build.js';

const USAGE = `usage: weir-js build FILE -o COMPONENT.wasm [--wit FOLDER]

  FILE   a module that exports an operator as its default, or a sink's two halves as Writer and Committer
  --wit  the contract's folder, where it is not found beside the SDK`;

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      output: { type: 'string', short: 'o' },
      wit: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(USAGE);
  } else {
    const [command, file, ...more] = positionals;
    if (command !== 'build' || file === undefined || more.length > 0 || values.output === undefined) throw new BuildError(USAGE);
    const size = await build(file, values.output, values);
    console.log(`${values.output}: ${size} bytes`);
  }
} catch (error) {
  const foreseen = error instanceof BuildError || error.code?.startsWith('ERR_PARSE_ARGS');
  console.error(foreseen ? error.message : error);
  process.exitCode = 1;
}
