/** Commands that make a root folder for an image: each in its own time, and told with its last words where it fails. */

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const MOST_OUTPUT_BYTES = 256 << 20;
const LAST_WORDS = 2000;

export interface CommandOptions {
  readonly cwd?: string;
  /** Beside what this process has. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Gives what it wrote to its output. */
export async function command(argv: readonly string[], { cwd, env = {} }: CommandOptions = {}): Promise<string> {
  const [program = '', ...args] = argv;
  const variables = { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive', ...env };
  const options = { cwd, env: variables, maxBuffer: MOST_OUTPUT_BYTES, encoding: 'utf8' } as const;
  try {
    const { stdout } = await promisify(execFile)(program, args, options);
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    const words = `${stdout}${stderr}`.trim().slice(-LAST_WORDS) || String(error);
    throw new Error(`${argv.slice(0, 12).join(' ')} failed: ${words}`);
  }
}

/** In turn, gently: others measure on the same machine. */
export async function make(argv: readonly string[], options?: CommandOptions): Promise<void> {
  await command(['nice', '-n', '15', ...argv], options);
}
