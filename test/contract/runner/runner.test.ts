/** The bundled runner as a child process: everything that a server, an agent or nobody at all may do to it. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe } from 'vitest';
import { bundleRunners, type RunnerFiles } from '../../support/agents/runner.ts';
import { runnerCommands } from './commands.ts';
import { runnerFaults } from './faults.ts';
import { runnerLoading } from './loading.ts';
import { runnerPermissions } from './permissions.ts';
import { runnerTerminals } from './terminals.ts';
import { runnerTurns } from './turns.ts';

describe('the runner', () => {
  let folder: string;
  let files: RunnerFiles;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cella-runner-'));
    files = await bundleRunners(folder);
  });
  afterAll(() => rm(folder, { recursive: true }));

  const parts = () => ({ ...files, folder });
  describe('turns', () => runnerTurns(parts));
  describe('permissions', () => runnerPermissions(parts));
  describe('faults', () => runnerFaults(parts));
  describe('commands', () => runnerCommands(parts));
  describe('loading', () => runnerLoading(parts));
  describe('terminals', () => runnerTerminals(parts));
});
