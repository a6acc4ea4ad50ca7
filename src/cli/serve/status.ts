/** `cella serve status`: the server on a data folder, and what it does. */

import type { ServerStatus } from '../../client/index.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import type { ServerCommands } from '../context.ts';
import { escapeControls, formatDuration, formatTime } from '../format.ts';
import { findRunning, noneText } from './running.ts';

export async function status(dataDir: string, { watchFolder }: ServerCommands, report: CommandOutput): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunning(dataDir, watch);
  switch (running.kind) {
    case 'answers': {
      await using client = running.client;
      const told = await client.server.status();
      await report.result({ running: true, ...told }, linesOf(told).join('\n'));
      return Exit.ok;
    }
    case 'silent': {
      const { pid, host, since } = running.holder;
      const who = `Process ${pid} on ${host} has ${dataDir} since ${formatTime(since)}`;
      const text = `${who}, and does not answer: it starts, ends, or hangs.`;
      await report.result({ running: true, answers: false, pid, host, startedAt: since, dataDir }, text);
      return Exit.failed;
    }
    case 'none':
      await report.result({ running: false, dataDir }, noneText(dataDir, running));
      return Exit.notRunning;
  }
}

function linesOf(told: ServerStatus): string[] {
  const { kernels, executions, sessions } = told;
  const facts: readonly (readonly [string, string])[] = [
    ['state', told.stopping ? 'ending' : 'running'],
    ['address', told.url],
    ['data', told.dataDir],
    ['storage', told.storage],
    ['version', told.version],
    ['process', String(told.pid)],
    ['up for', `${formatDuration(Date.now() - told.startedAt)}, since ${formatTime(told.startedAt)}`],
    ['sessions', String(sessions)],
    ['kernels', `${kernels.live} live of ${kernels.most}`],
    ['code', `${executions.running} running, ${executions.queued} waiting`],
  ];
  return facts.map(([title, text]) => `${title.padEnd(9)} ${escapeControls(text)}`);
}
