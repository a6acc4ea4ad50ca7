/** `cella bench`: measures starts, executions and memory on this machine. */

import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Option } from 'commander';
import { UsageError } from '../command-errors.ts';
import type { CommandContext, DefineCommand, Done } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

interface BenchFlags {
  readonly json: boolean;
  readonly markdown: boolean;
  readonly quick: boolean;
  /** Runs one part instead of all. */
  readonly only?: string;
}

interface Bench {
  bench(flags: BenchFlags, out: (text: string) => void, progress: (line: string) => void): Promise<number>;
}

export function addBench(define: DefineCommand, context: CommandContext, done: Done): void {
  define(HELP)
    .option('--json', 'print one JSON object')
    .addOption(new Option('--markdown', 'print a Markdown table').conflicts('json'))
    .option('--quick', 'one short round, to check that every measurement works')
    .option('--only <part>', 'measure one part: kernels, executors, server, gateway, agents or neighbours', parseText)
    .action(async ({ json = false, markdown = false, quick = false, only }: Partial<BenchFlags>) => {
      const part = only === undefined ? {} : { only };
      done(await bench({ json, markdown, quick, ...part }, context.terminal));
    });
}

/** The benchmark is not part of the package: Node runs it from a checkout. */
async function bench(flags: BenchFlags, terminal: CliTerminal): Promise<number> {
  const { packageFile } = await import('../../interpreter/package-file.ts');
  const file = packageFile('bench/main.ts');
  if (!existsSync(file)) {
    throw new UsageError('The benchmark is not in this installation.', 'Run it in a checkout of Cella: npm run bench.');
  }
  const { bench: measure }: Bench = await import(pathToFileURL(file).href);
  const ignore = () => {};
  return await measure(
    flags,
    (text) => void terminal.out(text).catch(ignore),
    (line) => void terminal.errLines(line).catch(ignore),
  );
}

const HELP = `
Examples:
  $ cella bench
  $ cella bench --json > numbers.json
  $ cella bench --only kernels

Compares Cella with ipykernel and Jupyter Server on this machine. Works only in a checkout of Cella. See
docs/performance.md.`;
