/** Asks the Python of an image about itself, and has it compile the kernel's code. */

import { z } from 'zod';
import { parseJson } from '../../interpreter/find-python.ts';
import { ASKING_PROGRAM, MARK } from './asking-program.ts';
import type { Engine } from './engine.ts';
import { type Heard, type Once, runOnce, unusable } from './run-once.ts';
import { closedVolumes } from './volumes.ts';

export interface Question extends Pick<Once, 'image' | 'name' | 'labels' | 'timeoutMs' | 'signal'> {
  /** A folder with the kernel's sources. */
  readonly kernel: string;
  /** Where the image wants to have volumes. */
  readonly volumes: readonly string[];
}

export const LibC = z.object({ name: z.enum(['glibc', 'musl']), version: z.tuple([z.int(), z.int().max(999)]) });

const Told = z.object({ version: z.tuple([z.int(), z.int(), z.int()]) });

/** Whoever made the image may have written anything. */
const Answer = Told.extend({
  executable: z.string().startsWith('/').max(4096),
  tag: z.string().regex(/^[a-z]+\d+[a-z]*(-musl)?-[A-Za-z0-9_]+$/),
  machine: z.string().regex(/^[A-Za-z0-9_]{1,32}$/),
  libc: LibC,
  path: z.string().max(8192),
  /** `frames.py`: its compiled code, and where that belongs. */
  compiled: z.record(z.string(), z.object({ at: z.string(), code: z.base64() })),
});

export type ImageAnswer = z.output<typeof Answer>;

const INSIDE = '/cella/kernel';
const OLDEST = [3, 9] as const;

export async function askImage(engine: Engine, question: Question): Promise<ImageAnswer> {
  const { kernel, volumes, ...about } = question;
  const ask = async (python: string): Promise<Heard> =>
    await runOnce(engine, {
      ...about,
      argv: [python, '-I', '-S', '-B', '-c', ASKING_PROGRAM, INSIDE],
      as: 'nobody',
      mounts: [
        { Type: 'bind', Source: kernel, Target: INSIDE, ReadOnly: true },
        ...closedVolumes(engine, volumes, [INSIDE]),
      ],
    });
  const first = await ask('python3');
  if (first.kind === 'ended') return read(question.name, first);
  const second = await ask('python');
  if (second.kind === 'ended') return read(question.name, second);
  // The first may be there, and for another machine.
  throw unusable(question.name, `it has no Python that runs: ${first.reason}; ${second.reason}`);
}

function read(name: string, { output, errors }: Extract<Heard, { kind: 'ended' }>): ImageAnswer {
  const line = output.split('\n').find((each) => each.startsWith(MARK));
  const told = parseJson(line?.slice(MARK.length) ?? '');
  const { version } = Told.safeParse(told).data ?? {};
  if (version && (version[0] < OLDEST[0] || (version[0] === OLDEST[0] && version[1] < OLDEST[1]))) {
    throw unusable(name, `its Python is ${version.join('.')}, and ${OLDEST.join('.')} or later is needed`);
  }
  const answer = Answer.safeParse(told);
  if (answer.success) return answer.data;
  const words = [errors, output].map((text) => text.trim().split('\n').at(-1)).find(Boolean);
  const said = words ? `: ${JSON.stringify(words.slice(0, 300))}` : '';
  throw unusable(name, `its Python does not answer as one does${said}`);
}
