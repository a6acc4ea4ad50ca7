/** What code leaves to make deleting it hard, and a server that deletes it all the same. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { TestServer } from '../../support/servers/server.ts';

/** More levels than any path can name, folders that are closed, and names that are no text. */
const fill = (levels: number) => `
import os
here = os.open(".", os.O_RDONLY)
for _ in range(${levels}):
    os.mkdir("d")
    os.chdir("d")
open("file", "w").close()
os.fchdir(here)
os.makedirs("closed/inner")
open("closed/inner/file", "w").close()
os.chmod("closed/inner", 0o000)
os.chmod("closed", 0o000)
os.mkdir(b"\\xff\\xfe")
open(b"\\xff\\xfe/\\x80\\n", "w").close()
os.symlink("/", "out")
os.mkfifo("pipe")
`;

/** Some disks take milliseconds for each folder that is removed: `folder` may lie on a faster one. */
export function deepLeftovers(levels: number, folder: () => Promise<string>): void {
  it('are deleted in the background, and do not prevent a start', { timeout: 120_000 }, async () => {
    const dataDir = await folder();
    const agents = join(dataDir, 'agents');
    const before = await TestServer.start({ dataDir });
    const { id } = await before.session({ agentKey: 'deep' });
    expect(await before.run(id, fill(levels))).toMatchObject({ status: 'ok' });
    expect(readdirSync(agents)).toHaveLength(1);
    expect((await before.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
    // Nobody who comes next finds any of it.
    const { id: next } = await before.session({ agentKey: 'deep' });
    expect(await before.run(next, 'import os; print(os.listdir("."))')).toMatchObject({ stdout: '[]\n' });
    expect((await before.call(`DELETE /v1/sessions/${next}`)).status).toBe(204);
    await before[Symbol.asyncDispose]();
    // Its folder may go with the test.
    await using after = await TestServer.start({ dataDir });
    expect((await after.call('GET /ready')).status).toBe(200);
    expect(await after.run((await after.session({ agentKey: 'other' })).id, '1 + 1')).toMatchObject({ status: 'ok' });
    await eventually(
      () => readdirSync(agents),
      (names) => names.length === 1,
      90_000,
    );
  });
}
