/** What callers of Cella rely on and what can be read without a server: codes, schemas, settings, help, exports. */

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { Exit, exitCodeOf } from '../../src/cli/exit-codes.ts';
import * as client from '../../src/client/index.ts';
import * as library from '../../src/index.ts';
import { ClientFrame, CloseCode } from '../../src/protocol/api/socket-frames.ts';
import { executionStatuses } from '../../src/protocol/enums.ts';
import { errorCodes } from '../../src/protocol/error-codes.ts';
import { FrameType } from '../../src/protocol/kernel-frames.ts';
import { fromKernel, fromSupervisor } from '../../src/protocol/kernel-payloads.ts';
import { CHECKPOINT_FORMAT } from '../../src/protocol/kernel-state.ts';
import { PROTOCOL_VERSION, toRunner, toServer } from '../../src/protocol/runner-methods.ts';
import { SessionEventBody } from '../../src/protocol/session-events.ts';
import { ServerOptions } from '../../src/server/embedded-server.ts';
import { SessionOptions } from '../../src/session/session-options.ts';
import { readProcessConfig } from '../../src/settings/process-config.ts';
import { allSettings, borrowedVariables } from '../../src/settings/settings-table.ts';
import { allHelp, referenceOf } from './cli-help.ts';
import { expectGolden } from './golden.ts';

/** What follows in docs/cli.md is generated. */
const REFERENCE = '<!-- From here on, this page is written by `npm run golden`. -->';

const root = fileURLToPath(new URL('../..', import.meta.url));

function schemaOf(schema: z.ZodType, io: 'input' | 'output' = 'input'): unknown {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any', reused: 'inline' });
  return rest;
}

describe('the protocols', () => {
  test('error codes keep their status, RPC code, retry and advice', () => expectGolden('error-codes.json', errorCodes));

  test('events of a session keep their fields', async () => {
    const byType = SessionEventBody.options.map((option) => [option.shape.type.value, schemaOf(option, 'output')]);
    await expectGolden('events.json', Object.fromEntries(byType));
  });

  test('frames of the WebSocket keep their fields and close codes', async () => {
    const byType = ClientFrame.options.map((option) => [option.shape.type.value, schemaOf(option)]);
    await expectGolden('websocket.json', { client: Object.fromEntries(byType), close: CloseCode });
  });

  test('frames of a kernel keep their letters and limits', async () => {
    const letters = new Map(Object.entries(FrameType).map(([name, type]) => [type, name]));
    const limits = (frames: ReadonlyMap<number, number>) =>
      Object.fromEntries([...frames].map(([type, bytes]) => [letters.get(type), bytes]));
    const frames = Object.entries(FrameType).map(([name, type]) => [name, String.fromCharCode(type)]);
    await expectGolden('kernel-frames.json', {
      letters: Object.fromEntries(frames),
      largestFromKernel: limits(fromKernel),
      largestFromSupervisor: limits(fromSupervisor),
      checkpointFormat: CHECKPOINT_FORMAT,
    });
  });

  test('methods between server and runner keep their fields', async () => {
    const described = (methods: typeof toRunner | typeof toServer) =>
      methods.map((one) => ({
        method: one.method,
        params: schemaOf(one.params),
        result: 'result' in one ? schemaOf(one.result, 'output') : 'none: a notification',
      }));
    const methods = { toRunner: described(toRunner), toServer: described(toServer) };
    await expectGolden('runner-rpc.json', { version: PROTOCOL_VERSION, ...methods });
  });
});

describe('the command line', () => {
  test('every command keeps its help', async () => {
    const pages = await allHelp();
    await expectGolden(
      'help.txt',
      pages.map(({ path, text }) => `$ ${['cella', path, '--help'].join(' ').replace('  ', ' ')}\n${text}`).join('\n'),
    );
  });

  test('docs/cli.md has the reference that the help gives', async () => {
    const file = join(root, 'docs/cli.md');
    const [prose = ''] = readFileSync(file, 'utf8').split(REFERENCE);
    const page = `${prose}${REFERENCE}\n\n${referenceOf(await allHelp())}`;
    await expect(page, 'The help changed: run "npm run golden", which writes docs/cli.md').toMatchFileSnapshot(file);
  });

  test('exit codes stay', async () => {
    const plain = { type: 'result', execution: 1, stdout: '', stderr: '', displays: [], durationMs: 0 } as const;
    const ofCells = executionStatuses.map((status) => [status, exitCodeOf({ ...plain, status })]);
    await expectGolden('exit-codes.json', { all: Exit, ofCells: Object.fromEntries(ofCells) });
  });
});

describe('settings', () => {
  test('every flag, variable, key and default stays', async () => {
    const rows = allSettings.map(({ flag, variable, key, defaultText: otherwise, description: about }) => ({
      ...{ flag, variable, key, default: otherwise, about },
    }));
    await expectGolden('settings.json', rows);
  });

  test('the variables that the product reads stay', async () => {
    const read = new Set<string>();
    readProcessConfig(
      new Proxy({}, { get: (_, name) => void read.add(String(name)), getOwnPropertyDescriptor: () => undefined }),
    );
    const known = allSettings.flatMap(({ variable }) => variable ?? []);
    const names = new Set([...read, ...known, ...Object.keys(borrowedVariables)]);
    await expectGolden('variables.txt', `${[...names].sort().join('\n')}\n`);
  });
});

describe('the library', () => {
  test('exports the same names of the same kinds', async () => {
    await expectGolden('exports.json', {
      cella: exportsOf(library, join(root, 'src/index.ts')),
      'cella/client': exportsOf(client, join(root, 'src/client/index.ts')),
    });
  });

  test('takes the same options', () =>
    expectGolden('options.json', { session: schemaOf(SessionOptions), server: schemaOf(ServerOptions) }));
});

/** Types by their names, functions and other values by their kinds, classes with their public members. */
function exportsOf(module: object, file: string): Record<string, unknown> {
  const types = exportedNames(file).map((name): [string, unknown] => [name, 'type']);
  const values = Object.entries(module).map(([name, value]) => [name, kindOf(value)]);
  return Object.fromEntries([...types, ...values]);
}

function kindOf(value: unknown): unknown {
  if (typeof value !== 'function') return typeof value;
  const members = Object.getOwnPropertyNames(value.prototype ?? {}).filter((name) => name !== 'constructor');
  const statics = Object.getOwnPropertyNames(value).filter((name) => !['length', 'name', 'prototype'].includes(name));
  const isClass = /^class\b/.test(Function.prototype.toString.call(value));
  return isClass ? { class: members.sort(), static: statics.sort() } : 'function';
}

/** As the source has them: types leave no trace at run time. */
function exportedNames(file: string): string[] {
  const source = readFileSync(file, 'utf8');
  const lists = [...source.matchAll(/export (?:type )?\{([^}]*)\}/g)].flatMap(([, names = '']) => names.split(','));
  const named = lists.map((name) => name.replace(/^.*\bas\b|\btype\b/s, '').trim());
  const own = [...source.matchAll(/^export (?:interface|type|class) (\w+)/gm)].map(([, name = '']) => name);
  const others = [...source.matchAll(/export type \* from '([^']+)'/g)];
  const below = others.flatMap(([, path = '']) => exportedNames(join(dirname(file), path)));
  return [...named, ...own, ...below].filter((name) => name !== '');
}
