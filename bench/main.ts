/** `cella bench`: measures Cella side by side with ipykernel. Works in a checkout, where Node runs these files as they are. */

import { CellaError } from '../src/protocol/errors.ts';
import { compare } from './compare.ts';
import { full, quick } from './plan.ts';
import { Progress } from './progress.ts';
import { toMarkdown, toTable } from './report.ts';
import { type BenchResult, type Part, parts } from './result.ts';
import { Subjects } from './subjects.ts';

export interface BenchOptions {
  readonly json: boolean;
  /** The table as docs/performance.md holds it. */
  readonly markdown?: boolean;
  /** Few rounds and small sizes: shows that everything can be measured, and gives no numbers to quote. */
  readonly quick?: boolean;
  /** One part instead of all but the last: `kernels`, `executors`, `server`, `gateway`, `agents` or `neighbours`. */
  readonly only?: string;
}

type Signal = 'SIGHUP' | 'SIGINT' | 'SIGTERM';

const EXIT_CODES: Readonly<Record<Signal, number>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
const SIGNALS: readonly Signal[] = ['SIGHUP', 'SIGINT', 'SIGTERM'];

/** Resolves to the exit code. `out` gets the report, `progress` a line at a time while the work goes on. */
export async function bench(
  options: BenchOptions,
  out: (text: string) => void,
  progress: (line: string) => void,
): Promise<number> {
  const stopped = Promise.withResolvers<Signal>();
  const onSignal = (signal: Signal) => {
    stopped.resolve(signal);
    // A second one does not wait for an orderly end: what is left is ended at exit.
    process.once(signal, () => process.exit(EXIT_CODES[signal]));
  };
  for (const signal of SIGNALS) process.once(signal, onSignal);
  try {
    const wanted = wantedParts(options.only);
    await using subjects = await Subjects.prepare();
    const comparison = compare(subjects, options.quick ? quick : full, new Progress(progress), wanted);
    // Once stopped, what is still measured fails as its subjects are closed under it.
    comparison.catch(() => {});
    const outcome = await Promise.race([comparison, stopped.promise]);
    if (typeof outcome === 'string') return EXIT_CODES[outcome];
    out(render(outcome, options));
    return 0;
  } catch (error) {
    // Told here, because the program that started this may hold another copy of the class.
    if (!(error instanceof CellaError)) throw error;
    const { code, message, advice } = error;
    if (options.json) out(`${JSON.stringify({ type: 'error', code, message, advice })}\n`);
    else progress(`cella: ${message}\n${advice}`);
    return 1;
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  }
}

function wantedParts(only: string | undefined): readonly Part[] {
  // That takes half an hour, and is measured where it is asked for.
  if (only === undefined) return parts.filter((one) => one !== 'neighbours');
  const part = parts.find((one) => one === only);
  if (part) return [part];
  const message = `The benchmark has no part ${JSON.stringify(only)}; it has ${parts.join(', ')}.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function render(result: BenchResult, options: BenchOptions): string {
  const { kernels, ...rest } = result;
  if (options.json) return `${JSON.stringify({ ...kernels, ...rest }, null, 2)}\n`;
  return options.markdown ? toMarkdown(result) : toTable(result);
}
