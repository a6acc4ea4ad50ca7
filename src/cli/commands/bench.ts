/** `cella bench`: measures starts, executions and memory on this machine. */

import { Option } from 'commander';
import type { BenchFlags } from '../context.ts';
import type { DefineCommand, Done } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';

export function addBench(define: DefineCommand, context: ProgramContext, done: Done): void {
  define(HELP)
    .option('--json', 'print the numbers as JSON')
    .addOption(new Option('--markdown', 'print them as a table for a document').conflicts('json'))
    .option('--quick', 'only show that everything can be measured')
    .option(
      '--only <part>',
      'one part instead of all: kernels, executors, server, gateway, agents or neighbours',
      parseText,
    )
    .action(async ({ json = false, markdown = false, quick = false, only }: Partial<BenchFlags>) => {
      const part = only === undefined ? {} : { only };
      done(await context.bench({ json, markdown, quick, ...part }, context.terminal));
    });
}

const HELP = `
Examples:
  $ cella bench
  $ cella bench --json > numbers.json
  $ cella bench --only server`;
