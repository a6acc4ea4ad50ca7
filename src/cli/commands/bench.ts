/** `cella bench`: measures starts, executions and memory on this machine. */

import { Option } from 'commander';
import type { BenchFlags } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';

export function addBench(define: DefineCommand, context: ProgramContext, done: Done): void {
  define(HELP)
    .option('--json', 'print one JSON object')
    .addOption(new Option('--markdown', 'print a Markdown table').conflicts('json'))
    .option('--quick', 'one short round, to see that everything can be measured')
    .option('--only <part>', 'measure one part: kernels, executors, server, gateway, agents or neighbours', parseText)
    .action(async ({ json = false, markdown = false, quick = false, only }: Partial<BenchFlags>) => {
      const part = only === undefined ? {} : { only };
      done(await context.bench({ json, markdown, quick, ...part }, context.terminal));
    });
}

const HELP = `
Examples:
  $ cella bench
  $ cella bench --json > numbers.json
  $ cella bench --only kernels

Compares Cella with ipykernel and Jupyter Server on this machine. Works only in a checkout of Cella. See
docs/performance.md.`;
