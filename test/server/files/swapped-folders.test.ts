/** Folders of the machine that a session was given: what code puts in their place later is not what was given. */

import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

it('a link with which code has replaced a folder leads nowhere, also after a restart', async () => {
  const [dataDir, outer, secret] = [await scratchFolder(), await scratchFolder(), await scratchFolder()];
  const inner = join(outer, 'a', 'b');
  mkdirSync(inner, { recursive: true });
  for (const folder of [outer, join(outer, 'a'), inner]) chmodSync(folder, 0o777);
  writeFileSync(join(secret, 'secret'), 'the secret', { mode: 0o600 });
  // What the operator names may be a link, and means what that leads to then.
  const named = join(secret, 'named');
  symlinkSync(outer, named);
  const before = await TestServer.start({ dataDir });
  const made = { agentKey: 'a', cwd: join(named, 'a', 'b'), sandbox: { writable: [outer] } };
  const { id } = await before.session(made);
  const [above, away, link] = [join(outer, 'a'), join(outer, 'away'), inner].map((path) => JSON.stringify(path));
  const swap = `import os; os.rename(${above}, ${away}); os.mkdir(${above}); os.symlink(${JSON.stringify(secret)}, ${link})`;
  expect(await before.run(id, swap)).toMatchObject({ status: 'ok' });
  const read = (server: TestServer) =>
    server.call(`POST /v1/sessions/${id}/execute`, { body: { code: `open(${link} + "/secret").read()` } });
  const file = (server: TestServer) => server.call(`GET /v1/sessions/${id}/files/content?path=secret`);
  expect((await file(before)).text).not.toContain('the secret');
  await before[Symbol.asyncDispose]();
  const after = await TestServer.start({ dataDir });
  const answers = [await read(after), await file(after)];
  for (const { text } of answers) expect.soft(text).not.toContain('the secret');
  expect(answers.map(({ status }) => status)).toEqual([409, 409]);
  for (const { json } of answers) expect(json).toMatchObject({ error: { code: 'FOLDER_REPLACED' } });
});
