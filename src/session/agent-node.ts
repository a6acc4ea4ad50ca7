/** Whether Node runs in an enclosure: it is brought in from the host, and an image may lack the libraries that it needs. */

import type { Executor, KernelHost } from '../environments/kernel-host.ts';
import { runToEnd } from '../environments/run-to-end.ts';
import { CellaError } from '../protocol/errors.ts';
import { AGENT_PATHS } from '../sandbox/mount-points.ts';

const LONGEST_MS = 30_000;
const MOST_WORDS = 4000;

/** One image each. */
const proven = new WeakSet<Executor>();

export async function requireNode(executor: Executor, enclosure: KernelHost, image: string | undefined): Promise<void> {
  if (proven.has(executor)) return;
  const command = {
    argv: [`${AGENT_PATHS.node}/node`, '--version'],
    timeoutMs: LONGEST_MS,
    outputLimitBytes: MOST_WORDS,
  };
  const { exitCode, stderr } = await runToEnd(enclosure, command, undefined).catch((error: unknown) => {
    const problem = error instanceof CellaError ? error.details.problem : undefined;
    // Where the loader that Node names is not in the image, nothing starts that could write a word.
    throw typeof problem === 'string' ? unusable(image, problem) : error;
  });
  if (exitCode !== 0) throw unusable(image, stderr.toString().trim().split('\n')[0] || 'it ended without a word');
  proven.add(executor);
}

function unusable(image: string | undefined, words: string): CellaError {
  const which = image === undefined ? 'The default image' : `The image ${image}`;
  const advice =
    image === undefined ? '`cella image build` makes it anew' : 'it needs the libraries of glibc and libstdc++';
  const message = `${which} cannot hold a coding agent, because Node does not run in it (${words}): ${advice}.`;
  return new CellaError('IMAGE_UNUSABLE', message, { details: image === undefined ? {} : { image } });
}
