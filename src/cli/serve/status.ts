/** `cella serve status`: the server on a data folder, and what it does. */

import type { ServerStatus } from '../../client/index.ts';
import type { Servers } from '../context.ts';
import { Exit } from '../exit.ts';
import type { Report } from '../report.ts';
import { durationToText, timeToText, toPlain } from '../texts.ts';
import { findRunning, noneText } from './running.ts';

export async function status(dataDir: string, { watchFolder }: Servers, report: Report): Promise<number> {
  await using watch = await watchFolder(dataDir);
  const running = await findRunning(dataDir, watch);
  switch (running.kind) {
    case 'answers': {
      await using client = running.client;
      const told = await client.server.status();
      await report.answer({ running: true, ...told }, linesOf(told).join('\n'));
      return Exit.ok;
    }
    case 'silent': {
      const { pid, host, since } = running.holder;
      const who = `Process ${pid} on ${host} has ${dataDir} since ${timeToText(since)}`;
      const text = `${who}, and does not answer: it starts, ends, or hangs.`;
      await report.answer({ running: true, answers: false, pid, host, startedAt: since, dataDir }, text);
      return Exit.failed;
    }
    case 'none':
      await report.answer({ running: false, dataDir }, noneText(dataDir, running));
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
    ['up for', `${durationToText(Date.now() - told.startedAt)}, since ${timeToText(told.startedAt)}`],
    ['sessions', String(sessions)],
    ['kernels', `${kernels.live} live of ${kernels.most}`],
    ['code', `${executions.running} running, ${executions.queued} waiting`],
  ];
  return facts.map(([title, text]) => `${title.padEnd(9)} ${toPlain(text)}`);
}
