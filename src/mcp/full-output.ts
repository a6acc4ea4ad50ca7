/** Keeps output that was too long for one answer as an artifact, where code and the client can read all of it. */

import { createHash } from 'node:crypto';
import { CellaError } from '../protocol/errors.ts';
import type { ArtifactsApi } from '../session/api.ts';

const KIND = 'output of run_code';
/** Older ones of the same agent are deleted. */
const MOST_KEPT = 20;

export interface KeptOutput {
  readonly agentKey: string;
  readonly execution: number;
  readonly text: string;
  /** False where the middle is lost. */
  readonly whole: boolean;
}

/** Gives the line that says where it is. Never fails: the answer is worth more than its rest. */
export async function keepOutput(
  session: { readonly artifacts: ArtifactsApi },
  { agentKey, execution, text, whole }: KeptOutput,
): Promise<string> {
  const agent = createHash('sha256').update(agentKey).digest('hex').slice(0, 8);
  const name = `output-${agent}-${execution}.txt`;
  try {
    // A fork that nobody has confirmed has none.
    const { artifacts } = session;
    await artifacts.save(name, Buffer.from(text), {
      type: 'text',
      mediaType: 'text/plain; charset=utf-8',
      description: `${whole ? 'All output' : 'The beginning and the end of the output'} of execution ${execution}.`,
      metadata: { kind: KIND, agent },
    });
    // One that cannot be deleted is tried again after the next output.
    await forgetOlder(artifacts, agent).catch(() => {});
    const what = whole ? 'All of it is' : 'Its beginning and its end are';
    return `[The output was cut. ${what} in the artifact ${name}: text = artifacts.load(${JSON.stringify(name)})]`;
  } catch (error) {
    const reason = error instanceof CellaError ? error.message : 'it could not be kept';
    return `[The output was cut, and its rest is lost: ${reason}]`;
  }
}

async function forgetOlder(artifacts: ArtifactsApi, agent: string): Promise<void> {
  const all = await artifacts.list();
  const own = all.filter(({ metadata }) => metadata.kind === KIND && metadata.agent === agent);
  const newestFirst = own.toSorted((one, other) => other.updatedAt - one.updatedAt);
  for (const { name } of newestFirst.slice(MOST_KEPT)) await artifacts.delete(name);
}
