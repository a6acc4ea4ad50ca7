/** Detects which layers of isolation this machine supports: Python tries each one for real and reports. */

import { z } from 'zod';
import { kernelPackage } from '../interpreter/package-file.ts';
import { tryParseJson } from '../lib/json-scanner.ts';
import { runProgram } from '../lib/run-process.ts';
import { messageOf, systemCode } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import { describeProblems } from '../protocol/parse.ts';
import { firstUids } from './sandbox-user.ts';

/** Longer than all trials together may take. */
const DETECTION_MS = 60_000;

export const layerNames = ['namespaces', 'userns', 'landlock', 'seccomp', 'uid', 'cgroup', 'rlimits'] as const;

const Layer = z.object({
  name: z.enum(layerNames),
  available: z.boolean(),
  /** What works, or why it does not. */
  detail: z.string(),
  /** What a person can do about it; empty if nothing is needed. */
  fix: z.string(),
});

const Detection = z.object({
  python: z.string(),
  executable: z.string(),
  prefix: z.string(),
  basePrefix: z.string(),
  machine: z.string(),
  kernel: z.string(),
  root: z.boolean(),
  layers: z
    .array(Layer)
    .refine((layers) => layers.map(({ name }) => name).join() === layerNames.join(), 'must report every layer once'),
});
type Detection = z.infer<typeof Detection>;

export async function detectLayers(python: string): Promise<Detection> {
  const output = await reportOf(python);
  const parsed = Detection.safeParse(tryParseJson(output));
  if (parsed.success) return parsed.data;
  const message = `${python} sent an invalid report about the layers of isolation: ${describeProblems(parsed.error).join('; ')}`;
  throw new CellaError('TEMPLATE_FAILED', message, { details: { output: output.slice(0, 2000) } });
}

async function reportOf(python: string): Promise<string> {
  try {
    const argv = [python, '-I', '-X', 'utf8', kernelPackage(), 'detect', JSON.stringify({ uids: firstUids })];
    return await runProgram(argv, DETECTION_MS);
  } catch (cause) {
    const code = systemCode(cause);
    if (code === 'ENOENT' || code === 'EACCES') {
      throw new CellaError('PYTHON_NOT_FOUND', `${python} is not a program that this user can run.`, { cause });
    }
    const message = `The layers of isolation could not be tested: ${messageOf(cause)}.`;
    throw new CellaError('TEMPLATE_FAILED', message, { cause });
  }
}
