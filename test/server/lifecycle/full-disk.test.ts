/** A server whose disk is full: what runs fails by name, the server lives, and goes on when there is room. */

import { expect, test } from 'vitest';
import { checkEndings, readLog } from '../../soak/log.ts';
import { Cella } from '../../support/cli/command.ts';
import { Refused, Served } from '../../support/servers/serve-process.ts';

const root = process.getuid?.() === 0;

/** Runs what comes after it in mounts of its own, which end with it. */
function withDisk(path: string, size: string): string[] {
  const script = `mount -t tmpfs -o size=${size},mode=711 none '${path}'; exec "$@"`;
  return ['unshare', '--mount', 'sh', '-ec', script, 'sh'];
}

/** Takes all that is left, to the last bytes, and then has much to say. */
const FILL = `import os
filler = os.open('filler', os.O_WRONLY | os.O_CREAT)
size = 1 << 20
while size:
    try: os.write(filler, b'x' * size)
    except OSError: size >>= 1
os.close(filler)
while True: print('x' * 50_000, flush=True)`;

test.runIf(root)(
  'a full disk fails the execution with a named error, and the server continues when there is room',
  async () => {
    using cella = new Cella();
    const python = process.env.CELLA_PYTHON;
    const flags = python === undefined ? [] : ['--python', python];
    await using served = await Served.start(cella, flags, { around: withDisk(cella.dataDir, '32m') });
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: 'full' } });
    const run = (code: string) =>
      served.ask<{ value: unknown }>(`POST /v1/sessions/${id}/execute`, { body: { code, timeoutMs: 60_000 } });
    await run('kept = 1');
    const failure = await run(FILL).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(Refused);
    expect(failure).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('full') });
    // It answers all the same, and what it cannot do it says.
    await expect
      .poll(async () => await served.ask('GET /ready').catch((error: unknown) => error))
      .toBeInstanceOf(Refused);
    await served.ask(`DELETE /v1/sessions/${id}/files?path=filler`);
    await expect.poll(async () => await run('kept').catch(String), { timeout: 20_000 }).toMatchObject({ value: 1 });
    const log = await readLog(served, id);
    checkEndings(id, log);
    // What could not be written is told as soon as something can.
    expect(log).toContainEqual(
      expect.objectContaining({ type: 'events_lost', reason: expect.stringContaining('full') }),
    );
  },
);
