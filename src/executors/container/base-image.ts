/** Makes an image of ours from one that is here already: its Python checked, and its library compiled. */

import { z } from 'zod';
import { checkedName } from './build-image.ts';
import { type BuiltImage, labelsOfImage } from './default-image.ts';
import { call, type Engine } from './engine.ts';
import { imageFacts } from './image.ts';
import { runOnce } from './run-once.ts';

export interface BaseOptions {
  readonly name?: string | undefined;
  /** Of Cella. */
  readonly version: string;
  /** Where what the base says of itself is kept. */
  readonly dataDir: string;
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
  const { onProgress = () => {}, signal, version, dataDir } = options;
  onProgress(`Looking at ${base}`);
  const facts = await imageFacts(engine, base, dataDir, { signal });
  const look = () => engine.docker.getImage(facts.id).inspect();
  const { Config: config } = Config.parse(await call(engine, 'looking at the image', look, { image: base, signal }));
  const python = facts.version.join('.');
  const changes = [
    `USER ${config.User || '0:0'}`,
    `WORKDIR ${config.WorkingDir || '/'}`,
    `ENTRYPOINT ${JSON.stringify(wordsOf(config.Entrypoint))}`,
    `CMD ${JSON.stringify(wordsOf(config.Cmd))}`,
    ...labelsOfImage(version, python),
  ];
  onProgress(`Compiling the library of its Python ${python}`);
  await runOnce(engine, {
    image: facts.id,
    name: base,
    argv: [facts.python, '-I', '-c', COMPILE],
    as: 'root',
    labels: {},
    timeoutMs: COMPILE_MS,
    signal,
    finished: async (container) => {
      onProgress(`Keeping it as ${repo}:${tag}`);
      const commit = () => container.commit({ repo, tag, changes, pause: false });
      await call(engine, 'keeping the image', commit, { timeoutMs: COMMIT_MS, signal });
    },
  });
  const name = `${repo}:${tag}`;
  const made = await call(engine, 'looking at the image', () => engine.docker.getImage(name).inspect(), {
    image: name,
  });
  return { name, id: made.Id, python, bytes: made.Size, missing: [] };
}

function wordsOf(value: z.output<typeof words>): string[] {
  return typeof value === 'string' ? [value] : (value ?? []);
}
