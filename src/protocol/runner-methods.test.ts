import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { MessageOrder } from '../server/runners/runner-connection.ts';
import { CellaError } from './errors.ts';
import type { RpcMethod, RpcNotification } from './rpc-message.ts';
import { transcriptPieces } from './runner-commands.ts';
import { toRunner, toServer } from './runner-methods.ts';

const runnerPage = readFileSync(new URL('../../docs/internals/runner.md', import.meta.url), 'utf8');
const page = runnerPage.slice(
  runnerPage.indexOf('## From the server to the runner'),
  runnerPage.indexOf('## Where it is in the source'),
);
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((section) => [/^`([^`]+)`/.exec(section)?.[1] ?? '', section]),
);

/** As the page writes them: with ? where they may be left out. */
function fieldsOf(schema: z.ZodType | undefined): string[] {
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.shape).map(([name, field]) => {
    const isOptional = field instanceof z.ZodType && field.safeParse(undefined).success;
    return isOptional ? `${name}?` : name;
  });
}

describe('the protocol in docs/internals/runner.md', () => {
  const methods: readonly (RpcMethod | RpcNotification)[] = [...toRunner, ...toServer];

  test('describes every method, and no other, in the order of the source', () => {
    expect([...sections.keys()]).toEqual(methods.map(({ method }) => method));
  });

  test.each(methods.map((method) => [method.method, method] as const))(
    'describes every field of %s',
    (name, method) => {
      const rows = sections.get(name)?.match(/^\| (→ )?`[^`]+` \|/gm) ?? [];
      const told = rows.map((row) => row.replaceAll(/[|` ]/g, ''));
      const results = 'result' in method ? fieldsOf(method.result) : [];
      expect(told).toEqual([...fieldsOf(method.params), ...results.map((field) => `→${field}`)]);
    },
  );

  test.each(methods.filter((method) => !('result' in method)).map(({ method }) => method))(
    'says that %s is a notification',
    (name) => expect(sections.get(name)).toContain('A notification'),
  );
});

describe('the messages of a turn', () => {
  test('are accepted in order, without gaps or repeats', () => {
    const order = new MessageOrder();
    order.take(1);
    order.take(2);
    for (const wrong of [2, 1, 4, 0]) expect(() => order.take(wrong)).toThrow(CellaError);
    order.take(3);
    expect(order.count).toBe(3);
  });
});

describe('the pieces of a transcript', () => {
  test('join to the transcript, and split no character', () => {
    for (const text of ['', 'short', `${'x'.repeat(256 * 1024 - 1)}😀rest`, '😀'.repeat(300_000)]) {
      const pieces = [...transcriptPieces(text)].map((piece) => piece.text);
      expect(pieces.join('')).toBe(text);
      expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
    }
  });
});
