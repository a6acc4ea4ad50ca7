/** Folders from elsewhere that a policy names: what the code may do there, and whose it is on disk. */

import { chmod, chown, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { attempts, python, succeeded } from '../support/kernels/attack-code.ts';
import { type Open, scratchFolder } from '../support/kernels/session.ts';

const rootHost = process.getuid?.() === 0;
/** Of nobody that this host knows, so that nobody else's files are taken for theirs. */
const [OWNER, GROUP] = [1_234_567, 1_234_568];

/** Where folders are brought in by the host, and not by an engine. */
export function foldersFromElsewhere(open: Open): void {
  test('a writable folder belongs to the code’s user inside, and keeps its owner on disk; others are read-only or invisible', async () => {
    const outer = await scratchFolder();
    const below = (name: string) => join(outer, name);
    const [written, shown, hidden] = [below('written'), below('shown'), below('hidden')];
    for (const folder of [written, shown, hidden]) {
      await mkdir(folder);
      await writeFile(join(folder, 'kept'), 'as it was', { mode: 0o600 });
      if (rootHost) for (const path of [join(folder, 'kept'), folder]) await chown(path, OWNER, GROUP);
      await chmod(folder, 0o700);
    }
    const session = await open({ sandbox: { writable: [written], readable: [shown] } });
    const verdicts = await attempts(
      session,
      `
written, shown, hidden = ${python([written, shown, hidden])}
{'change': attempt(write, written + '/kept', b'changed'), 'make': attempt(write, written + '/made'),
 'make a folder': attempt(os.mkdir, written + '/folder'), 'make below': attempt(write, written + '/folder/made'),
 'read': attempt(read, shown + '/kept'), 'list': attempt(os.listdir, shown),
 'change what is shown': attempt(write, shown + '/kept'), 'make beside it': attempt(write, shown + '/made'),
 'move into it': attempt(os.rename, written + '/made', shown + '/made'), 'remove from it': attempt(os.remove, shown + '/kept'),
 'hidden': attempt(os.stat, hidden), 'hidden file': attempt(read, hidden + '/kept'), 'beside them': attempt(write, ${python(outer)} + '/made'),
 'set-uid': attempt(os.chmod, written + '/made', 0o4755)}`,
    );
    expect(Object.keys(succeeded(verdicts))).toEqual(['change', 'make', 'make a folder', 'make below', 'read', 'list']);
    expect(verdicts).toMatchObject({ hidden: 'ENOENT', 'hidden file': 'ENOENT' });
    expect((await readdir(outer, { recursive: true })).toSorted().join(' ')).toBe(
      'hidden hidden/kept shown shown/kept written written/folder written/folder/made written/kept written/made',
    );
    const { uid, gid } = await stat(written);
    expect({ uid, gid }).toEqual(rootHost ? { uid: OWNER, gid: GROUP } : { uid: process.getuid?.(), gid });
    for (const made of ['kept', 'made', 'folder', 'folder/made']) {
      expect.soft({ made, ...(await stat(join(written, made))) }).toMatchObject({ made, uid, gid });
    }
    expect(await readFile(join(written, 'kept'), 'utf8')).toBe('changed');
    expect(await readFile(join(shown, 'kept'), 'utf8')).toBe('as it was');
  });
}
