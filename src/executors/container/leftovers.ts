/** Containers and folders that processes which are gone have left behind, removed before the first of our own is made. */

import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { Container } from './container.ts';
import { ask, type Engine } from './engine.ts';
import { dataId, LABEL, type Owner } from './owner.ts';

const Listed = z.array(z.object({ Id: z.string(), State: z.string(), Labels: z.record(z.string(), z.string()) }));

/** Podman calls one `stopped` until it has tidied up after it. */
const ENDED = new Set(['exited', 'stopped', 'dead']);

/** `ours` are the numbers that this process uses. Containers of other data folders are not even looked at. */
export async function removeLeftovers(
  engine: Engine,
  dataDir: string,
  owner: Owner,
  ours: ReadonlySet<string>,
): Promise<void> {
  const label = [`${LABEL.cella}=1`, `${LABEL.data}=${dataId(dataDir)}`];
  const list = () => engine.docker.listContainers({ all: true, filters: { label } });
  const listed = await ask(engine, 'listing containers', Listed, list);
  const left = listed.filter(({ State, Labels }) => {
    const whose = Labels[LABEL.owner] ?? '';
    if (whose === owner.self) return !ours.has(Labels[LABEL.number] ?? '');
    const seen = owner.look(whose);
    // Where the owner cannot be seen (before a reboot, or in another container), it has let go of what has ended.
    return seen === 'dead' || (seen === 'unseen' && ENDED.has(State));
  });
  await Promise.all(left.map(({ Id }) => new Container(engine, Id).remove()));
}

/** The folders of doors, one for each process. Gives those of others that may live. */
export async function removeFolders(parent: string, owner: Owner): Promise<string[]> {
  const others = (await readdir(parent)).filter((name) => name !== owner.self);
  const dead = others.filter((name) => owner.look(name) === 'dead');
  await Promise.all(dead.map((name) => rm(join(parent, name), { recursive: true, force: true })));
  return others.filter((name) => !dead.includes(name));
}
