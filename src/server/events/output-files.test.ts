import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import { ExecutionRecorder } from './execution-recorder.ts';
import { OutputFiles } from './output-files.ts';
import type { SessionLog } from './session-log.ts';

const MEGABYTE = 1024 * 1024;
const SESSION = 'ses_0000000000000000';

async function outputs() {
  const dataDir = await mkdtemp(join(tmpdir(), 'cella-outputs-'));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const files = new OutputFiles(dataDir, SESSION);
  return { files, names: () => readdir(join(dataDir, 'outputs', SESSION)) };
}

test('however small the displays of an execution are, only so many become files', async () => {
  const { files, names } = await outputs();
  const events: SessionEventBody[] = [];
  const log = { add: (event: SessionEventBody) => events.push(event), full: false } as unknown as SessionLog;
  const limits = { eventBytes: 1024, inlineBytes: 0, fileBytes: MEGABYTE };
  await using recorder = new ExecutionRecorder('exe_0000000000000000', log, files, limits);
  for (let at = 0; at < 100; at++) await recorder.record({ type: 'display', data: { 'text/plain': '1' } });
  const ended: ResultEvent = {
    type: 'result',
    status: 'ok',
    execution: 1,
    durationMs: 0,
    stdout: '',
    stderr: '',
    displays: [],
  };
  const { result } = await recorder.end(ended);
  expect([(await names()).length, events.length, result.truncated?.displays]).toEqual([64, 64, 36]);
});

test('however small the files of a session are, only so many are kept: the newest', async () => {
  const { files, names } = await outputs();
  const kept: string[] = [];
  for (let at = 0; at < 100; at++) kept.push((await files.keep('txt', 'x')).file);
  await files.trim({ olderThan: 0, maxBytes: MEGABYTE });
  expect((await names()).sort()).toEqual(kept.toSorted().slice(-64));
});
