/** Images for tests: the machine's Python without its packages, and others made from it file by file. */

import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Engine } from '../../../src/environments/container/engine.ts';
import type * as ImageModule from '../../../src/environments/container/image-python.ts';
import { buildImage } from '../../../src/environments/container/image-store.ts';

export const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

export async function bareImage(engine: Engine, name: string, from = python): Promise<string> {
  const image = await buildImage(engine, { python: from, name, packages: false, version: 'test' });
  return image.name;
}

let copies = 0;

/** What is known of images as another process has it: it has asked none yet. */
export async function anotherImageModule(): Promise<typeof ImageModule> {
  copies += 1;
  return await import(`../../../src/environments/container/image-python.ts?${copies}`);
}

/** With nothing but these files, all of which may be run. */
export async function imageOf(engine: Engine, name: string, files: Record<string, string>): Promise<string> {
  const changes = ['ENV PATH=/usr/local/bin:/usr/bin:/bin'];
  const answer = await text(await engine.docker.importImage(Readable.from([archive(files)]), { changes }));
  const [id] = /[0-9a-f]{64}/.exec(answer) ?? [];
  if (id === undefined) throw new Error(`the engine did not return the new image: ${answer}`);
  // Podman takes no name with an import.
  await engine.docker.getImage(id).tag({ repo: name, tag: 'test' });
  return `${name}:test`;
}

/** Like the base, with these files besides or instead. */
export async function imageWith(
  engine: Engine,
  base: string,
  name: string,
  files: Record<string, string>,
): Promise<string> {
  const container = await engine.docker.createContainer({ Image: base });
  try {
    await container.putArchive(archive(files), { path: '/' });
    await container.commit({ repo: name, tag: 'test' });
  } finally {
    await container.remove({ force: true });
  }
  return `${name}:test`;
}

function archive(files: Record<string, string>): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'cella-files-'));
  try {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
      chmodSync(join(folder, path), 0o755);
    }
    return execFileSync('tar', ['--create', '--owner=0', '--group=0', '--directory', folder, ...Object.keys(files)]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Runs a command in an image, without network or rights, and gives what it printed. */
export async function runIn(engine: Engine, image: string, argv: string[]): Promise<string> {
  const [output, errors] = [new PassThrough(), new PassThrough()];
  // Podman raises what is not named, which not everybody who runs it may do.
  const Ulimits = ['nofile', 'nproc'].map((Name) => ({ Name, Soft: 1024, Hard: 1024 }));
  const HostConfig = { NetworkMode: 'none', ReadonlyRootfs: true, CapDrop: ['ALL'], Ulimits };
  const settings = { Tty: false, Entrypoint: argv.slice(0, 1), HostConfig };
  const [{ StatusCode }, container] = await engine.docker.run(image, argv.slice(1), [output, errors], settings);
  await container.remove({ force: true });
  const words = String(errors.read() ?? '');
  if (StatusCode !== 0) throw new Error(`${argv.join(' ')} ended with ${StatusCode}: ${words}`);
  return String(output.read() ?? '');
}
