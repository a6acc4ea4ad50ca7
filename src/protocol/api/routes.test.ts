/** The table of routes: what each must have, and that docs/http-api.md names them all and no other. */

import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { frameRoutes, routes } from './routes.ts';
import { ClientFrame } from './socket-frames.ts';

const all = Object.entries(routes);
const textOf = ({ method, path }: { readonly method: string; readonly path: string }) =>
  `${method} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`;

it('has each method and path once', () => {
  const texts = all.map(([, route]) => textOf(route));
  expect(texts.length).toBeGreaterThan(100);
  expect(new Set(texts).size).toBe(texts.length);
});

it.each(all)(
  '%s has a schema for each part of its path, and a session exactly if it needs a right on one',
  (_, route) => {
    const inPath = [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    expect(route.params instanceof z.ZodObject && Object.keys(route.params.shape).sort()).toEqual(inPath.sort());
    expect(route.path.includes('/v1/sessions/{id}')).toBe(route.auth.kind === 'session');
  },
);

it('has a name in the audit log for each change', () => {
  const unnamed = all.filter(([, { method, audit }]) => method !== 'GET' && !audit).map(([name]) => name);
  expect(unnamed.sort()).toEqual(['checkComplete', 'completeCode', 'deleteMcp', 'inspectCode', 'warmAgent']);
});

it('has a route for each frame that a client may send', () => {
  const types = ClientFrame.options.map(({ shape }) => shape.type.value).filter((type) => type !== 'ping');
  expect(Object.keys(frameRoutes).sort()).toEqual(types.sort());
  for (const { auth } of Object.values(frameRoutes)) expect(auth.scope).toBeUndefined();
});

it('is what docs/http-api.md lists', () => {
  const page = readFileSync(new URL('../../../docs/http-api.md', import.meta.url), 'utf8');
  const [, table = ''] = /^## Routes$(.*?)^## /ms.exec(page) ?? [];
  const rows = table.split('\n').filter((line) => line.startsWith('| `'));
  const documented = rows.map((row) => routesOfRow(row.split('|')[1] ?? ''));
  const wrong = documented.flat().filter((known) => !all.some(([, route]) => known.test(textOf(route))));
  expect(wrong, 'rows of docs/http-api.md without a route').toEqual([]);
  const missing = all.filter(([, route]) => !documented.flat().some((known) => known.test(textOf(route))));
  expect(
    missing.map(([name]) => name),
    'routes that need a row in docs/http-api.md',
  ).toEqual([]);
});

/** `POST` `GET /v1/a`, `DELETE …/:b` are three routes. A path in a row without methods stands for all that begin with it. */
function routesOfRow(cell: string): RegExp[] {
  const spans = [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.split(' '));
  const first = spans.flat().find((word) => word.startsWith('/') || word.startsWith('…')) ?? '';
  const base = first.startsWith('/v1/') ? first : '/v1/sessions/:id';
  const found: RegExp[] = [];
  let methods: string[] = [];
  let isOver = true;
  for (const word of spans.flat()) {
    if (/^[A-Z]+$/.test(word)) {
      methods = isOver ? [word] : [...methods, word];
      isOver = false;
    } else {
      isOver = true;
      const path = word.replace('…', base).replace(/\?.*/, '').replaceAll('.', '\\.');
      const pattern = path.replaceAll(/:\w+/g, ':\\w+');
      if (methods.length === 0) found.push(new RegExp(`^[A-Z]+ ${pattern}(/.*)?$`));
      for (const method of methods) found.push(new RegExp(`^${method} ${pattern}$`));
    }
  }
  return found;
}
