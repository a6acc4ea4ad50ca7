/** Makes an image of ours from one that is here already: its Python checked, and its library compiled. */

import { mkdir } from 'node:fs/promises';
import { z } from 'zod';
import { checkedName } from './build-image.ts';
import { type BuiltImage, labelsOfImage, Made } from './default-image.ts';
import { ask, call, type Engine } from './engine.ts';
import { imageFacts } from './image.ts';
import { labelsOf } from './owner.ts';
import { runOnce } from './run-once.ts';

export interface BaseOptions {
  readonly name?: string | undefined;
  /** Of Cella. */
  readonly version: string;
  /** Where what the base says of itself is kept. */
  readonly dataDir: string;
  /** A word for this process: what it leaves behind where it is killed is removed by whoever comes next. */
  readonly owner: string;
  readonly onProgress?: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/** Files that do not compile are no harm: nobody can import them. What is compiled already stays as it is. */
const COMPILE = `
import compileall, os, re, sys, sysconfig
folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
for folder in sorted(filter(os.path.isdir, folders)):
    compileall.compile_dir(folder, quiet=2, rx=re.compile(r"/(test|tests|lib2to3)/"))
`;
const COMPILE_MS = 10 * 60_000;
const COMMIT_MS = 5 * 60_000;

const words = z.union([z.array(z.string()), z.string(), z.null()]).optional();
const Config = z.object({
  Config: z.object({ User: z.string().default(''), WorkingDir: z.string().default(''), Entrypoint: words, Cmd: words }),
});

/** The base must be on this machine: nothing is pulled. */
export async function buildFromBase(engine: Engine, base: string, options: BaseOptions): Promise<BuiltImage> {
  const { repo, tag } = checkedName(options.name);
  const { onProgress = () => {}, signal, version, dataDir, owner } = options;
  onProgress(`Looking at ${base}`);
  await mkdir(dataDir, { recursive: true });
  const labels = labelsOf(dataDir, owner);
  const facts = await imageFacts(engine, base, dataDir, { signal, labels });
  const look = () => engine.docker.getImage(facts.id).inspect();
  const { Config: config } = await ask(engine, 'looking at the image', Config, look, { image: base, signal });
  const python = facts.version.join('.');
  const changes = [
    `USER ${config.User || '0:0'}`,
    `WORKDIR ${config.WorkingDir || '/'}`,
    `ENTRYPOINT ${JSON.stringify(wordsOf(config.Entrypoint))}`,
    `CMD ${JSON.stringify(wordsOf(config.Cmd))}`,
    ...labelsOfImage(version, python),
    // Containers of this image are somebody's own, whatever it was made in.
    ...Object.keys(labels).map((label) => `LABEL ${label}=""`),
  ];
  onProgress(`Compiling the library of its Python ${python}`);
  await runOnce(engine, {
    image: facts.id,
    name: base,
    argv: [facts.python, '-I', '-c', COMPILE],
    as: 'root',
    labels,
    timeoutMs: COMPILE_MS,
    signal,
    finished: async (container) => {
      onProgress(`Keeping it as ${repo}:${tag}`);
      const commit = () => container.commit({ repo, tag, changes, pause: false });
      await call(engine, 'keeping the image', commit, { timeoutMs: COMMIT_MS, signal });
    },
  });
  const name = `${repo}:${tag}`;
  const find = () => engine.docker.getImage(name).inspect();
  const made = await ask(engine, 'looking at the image', Made, find, { image: name });
  return { name, id: made.Id, python, bytes: made.Size, missing: [] };
}

function wordsOf(value: z.output<typeof words>): string[] {
  return typeof value === 'string' ? [value] : (value ?? []);
}
