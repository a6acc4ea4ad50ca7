/** Ways to the host's files, and folders that a policy must not name. */

import { chmod, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { attempts, python, succeeded } from '../support/kernels/attack-code.ts';
import { type Open, scratchFolder } from '../support/kernels/session.ts';

export function filesOfTheHost(open: Open, ofTheSystem: readonly string[]): void {
  test('do not exist, whatever their mode, and not through links, /proc or leftover descriptors', async () => {
    const outside = await scratchFolder();
    await writeFile(join(outside, 'secret'), 'hush', { mode: 0o600 });
    await writeFile(join(outside, 'public'), 'hush', { mode: 0o644 });
    const session = await open();
    await symlink(join(outside, 'public'), join(session.cwd, 'link'));
    await symlink(outside, join(session.cwd, 'folder'));
    const verdicts = await attempts(
      session,
      `
outside = ${python(outside)}
paths = ['/etc/shadow', '/etc/sudoers', '/root/.bashrc', '/var/lib/dpkg/status', '/boot', '/.host', *${python(ofTheSystem)},
         outside, outside + '/secret', outside + '/public', 'link', 'folder/public', '/.own/../..' + outside + '/public']
for name in ('root', 'cwd', 'fd', 'task/1/root', 'task/1/cwd'):
    paths += ['/proc/%s/%s%s/public' % (pid, name, outside) for pid in (1, 'self', 'thread-self')]
verdicts = {path: attempt(os.listdir if os.path.isdir(path) else read, path) for path in paths}
os.chdir('/')
verdicts['parent of /'] = attempt(read, '../../../../..' + outside + '/public')
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });

  test('the folder of another agent key does not exist', async () => {
    const dataDir = await scratchFolder();
    const other = await open({ dataDir, agentKey: 'other' });
    expect((await other.run("open('kept', 'w').write('hush')")).status).toBe('ok');
    const session = await open({ dataDir, agentKey: 'curious' });
    const verdicts = await attempts(
      session,
      `
other, data = ${python(other.cwd)}, ${python(dataDir)}
{'file': attempt(read, other + '/kept'), 'folder': attempt(os.listdir, other), 'climb': attempt(read, '../../' + '/'.join(other.split('/')[-2:]) + '/kept'),
 'write': attempt(write, other + '/kept'), 'data': attempt(os.listdir, data), 'above': attempt(os.listdir, '../..' + data)}`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });

  test('nothing outside the workspace can be written, linked or replaced', async () => {
    const session = await open();
    const verdicts = await attempts(
      session,
      `
targets = ['/usr/x', '/usr/bin/python3', '/etc/passwd', '/etc/x', '/x', '/dev/x', '/proc/sys/kernel/hostname',
           '/proc/sys/vm/overcommit_memory', '/proc/self/oom_score_adj', '/proc/sysrq-trigger', '/.own/passwd', '/bin/sh']
verdicts = {path: attempt(write, path) for path in targets}
verdicts['hard link out'] = attempt(os.link, '/usr/bin/env', 'env')
verdicts['hard link in'] = (write('mine'), attempt(os.link, 'mine', '/usr/mine'))[1]
verdicts['rename'] = attempt(os.rename, '/usr/bin/env', 'env')
verdicts['remove'] = attempt(os.remove, '/usr/bin/env')
verdicts['device'] = attempt(os.mknod, 'disk', stat.S_IFBLK | 0o600, os.makedev(254, 0))
verdicts['memory device'] = attempt(os.mknod, '/tmp/mem', stat.S_IFCHR | 0o600, os.makedev(1, 1))
verdicts`,
    );
    expect(succeeded(verdicts)).toEqual({});
  });
}

export function foldersOfAPolicy(open: Open): void {
  test('system folders cannot be named', async () => {
    for (const cwd of ['/', '/tmp', '/dev/shm', '/proc/self', '/sys/fs', '/usr', '/etc']) {
      await expect(open({ cwd }), cwd).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    const dataDir = await scratchFolder();
    await mkdir(join(dataDir, 'data'));
    await expect(open({ dataDir: join(dataDir, 'data'), cwd: dataDir })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
    });
  });

  test('a read-only folder cannot be written, whatever its permissions', async () => {
    const folder = await scratchFolder();
    await writeFile(join(folder, 'kept'), 'as it was');
    await mkdir(join(folder, 'below'));
    for (const [name, mode] of Object.entries({ '.': 0o777, below: 0o777, kept: 0o666 })) {
      await chmod(join(folder, name), mode);
    }
    const session = await open({ sandbox: { readable: [folder] } });
    const verdicts = await attempts(
      session,
      `
folder = ${python(folder)}
kept = os.open(folder + '/kept', os.O_RDONLY)
{'read': attempt(read, folder + '/kept'), 'list': attempt(os.listdir, folder + '/below'),
 'change': attempt(write, folder + '/kept'), 'make': attempt(write, folder + '/made'), 'make below': attempt(write, folder + '/below/made'),
 'cut': attempt(os.truncate, folder + '/kept', 0), 'rename': attempt(os.rename, folder + '/kept', folder + '/moved'),
 'remove': attempt(os.remove, folder + '/kept'), 'remove below': attempt(os.rmdir, folder + '/below'), 'mode': attempt(os.chmod, folder + '/kept', 0o777),
 'link in': (write('mine'), attempt(os.link, 'mine', folder + '/mine'))[1], 'by its descriptor': attempt(write, '/proc/self/fd/%d' % kept)}`,
    );
    expect(Object.keys(succeeded(verdicts))).toEqual(['read', 'list']);
    expect((await readdir(folder)).toSorted()).toEqual(['below', 'kept']);
    expect(await readFile(join(folder, 'kept'), 'utf8')).toBe('as it was');
  });

  test('more folders than a policy allows are refused at once', async () => {
    const folder = await scratchFolder();
    const readable = Array.from({ length: 260 }, (_, index) => join(folder, String(index)));
    await Promise.all(readable.map((path) => mkdir(path)));
    await expect(open({ sandbox: { readable } })).rejects.toMatchObject({
      message: expect.stringContaining('folders'),
    });
    const session = await open({ sandbox: { readable: readable.slice(0, 64) } });
    expect((await session.run(`len(__import__('os').listdir(${python(folder)}))`)).value).toBe(64);
  });
}
