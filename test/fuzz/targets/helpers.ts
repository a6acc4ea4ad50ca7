/** What helpers answer, which untrusted text or an image may have taken over. */

import { Readable } from 'node:stream';
import type { Target } from '../engine.ts';

const GONE = { kind: 'gone', reason: 'it went away' } as const;

/** The first line says what it is: the reply of the reader of skills, or what a container writes, as engines send it. */
export async function helpers(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { collectOutput } = await import('../../../src/environments/container/container.ts');
  const { readAnswer, wheelPlatforms } = await import('../../../src/environments/container/image-python.ts');
  const { PythonSkillParser } = await import('../../../src/namespaces/skills/skill-parser.ts');

  let line = '';
  const helper = {
    alive: true,
    ask: async () => (line === '' ? GONE : ({ kind: 'reply', line } as const)),
    end: async () => {},
  };
  const python = async (): Promise<string> => {
    throw new CellaError('PYTHON_NOT_FOUND', 'There is none.');
  };
  const reader = new PythonSkillParser({ python, fallback: async () => helper });

  /** Wherever it is cut, it is the same, and nothing of it is lost. */
  const written = async (bytes: Buffer): Promise<void> => {
    const size = 1 + (bytes.length % 17);
    const cut = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) =>
      bytes.subarray(n * size, (n + 1) * size),
    );
    const [whole, pieces] = await Promise.allSettled([
      collectOutput(Readable.from([bytes])),
      collectOutput(Readable.from(cut)),
    ]);
    if (JSON.stringify(whole) !== JSON.stringify(pieces)) throw new Error('it depends on how the output was cut');
    if (whole.status === 'rejected') {
      if (!/invalid container output/.test(String(whole.reason))) throw whole.reason;
      return;
    }
    const { machine, libc } = readAnswer('an image', { kind: 'ended', ...whole.value });
    if (wheelPlatforms(machine, libc).length > 3000) throw new Error('more names than any index has');
  };

  return {
    name: 'helpers',
    parser: [
      { file: 'namespaces/skills/skill-parser.ts', functions: ['parse', '#read', 'understood'] },
      { file: 'environments/container/container.ts', functions: ['collectOutput', 'push', '#fillHead'] },
      { file: 'environments/container/image-python.ts', functions: ['readAnswer', 'wheelPlatforms', 'glibc', 'musl'] },
      { file: 'interpreter/find-python.ts', functions: ['oldVersion'] },
    ],
    words: [
      ...['\x01\0\0\0\0\0\0\x01x', '\x02\0\0\0\0\0\0\x02\xc3\xa9', '\x01\0\0\0\0\0\0\0', '\x03', '\xff\xff\xff\xff'],
      ...['cella-image:', '\ncella-image:{', '"version":[3,8,1]', '"version":[3,11,2]', '"musl"', '999', '"machine":"'],
      ...[
        '{"read":',
        '{"refused":',
        '"line":null',
        '"parameters":[',
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"',
        'null',
        '-1',
        '1e9',
      ],
    ],
    take: async (input) => {
      const end = input.indexOf(10);
      const bytes = Buffer.from(input.subarray(end + 1));
      try {
        if (input.toString('latin1', 0, Math.max(0, end)) === 'image') await written(bytes);
        else {
          line = bytes.toString();
          const { docstring } = await reader.parse('async def run(): pass');
          if (docstring && !(docstring.start >= 0 && docstring.end >= 0)) throw new Error('a place that is none');
        }
      } catch (error) {
        if (!(error instanceof CellaError)) throw error;
      }
    },
  };
}
