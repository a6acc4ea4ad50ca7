/**
 * A host of its own, as a program, whose one session is driven from outside: each line on stdin is
 * `{"call":…,"with":[…]}`, and each is answered by a line, `{"value":…}` or `{"error":{…}}`.
 */

import { createInterface } from 'node:readline';
import { CellaError, Session, shutdown } from '../../../src/index.ts';

let session: Session | undefined;

async function perform(call: string, words: unknown[]): Promise<unknown> {
  if (call === 'open') {
    session = await Session.open(words[0] as object);
    return { pid: session.pid };
  }
  const work = session && Reflect.get(session, call);
  if (typeof work !== 'function') throw new Error(`a session cannot ${call}`);
  return await Reflect.apply(work, session, words);
}

const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

tell({ ready: process.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const { call, with: words } = JSON.parse(line) as { call: string; with: unknown[] };
  try {
    tell({ value: await perform(call, words) });
  } catch (error) {
    const { name, message } = error as Error;
    tell({ error: error instanceof CellaError ? { ...error.toJSON() } : { code: name, message } });
  }
}
await session?.close();
await shutdown();
