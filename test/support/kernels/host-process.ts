/**
 * A host of its own, as a program: opens a session for each set of options and tells how that went, then runs code in
 * the last one. One line of JSON each: `{"open":…}`, `{"text":…}`, `{"result":…}`.
 */

import { setTimeout as wait } from 'node:timers/promises';
import { CellaError, Session, shutdown } from '../../../src/index.ts';
import type { Plan } from './host-processes.ts';

const { sessions, pausesMs, code } = JSON.parse(process.argv[2] ?? '{}') as Plan;
const tell = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`);

let session: Session | undefined;
for (const [number, options] of sessions.entries()) {
  await session?.close();
  await wait(pausesMs?.[number] ?? 0);
  try {
    session = await Session.open(options);
    const { value } = await session.run('6 * 7');
    tell({ open: { code: 'ok', value, pid: session.pid } });
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    tell({ open: { code: error.code, layer: error.details.layer, message: error.message } });
  }
}
if (session && code !== undefined) {
  const result = await session.run(code, {
    onEvent: (event) => {
      if (event.type === 'stdout') tell({ text: event.text });
    },
  });
  tell({ result: result.status });
}
await session?.close();
await shutdown();
