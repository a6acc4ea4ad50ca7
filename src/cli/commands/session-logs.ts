import type { Client, ClientSession, StreamItem } from '../../client/index.ts';
import { AgentLogEvent } from '../../protocol/agent-events.ts';
import { LoggedTurnPrinter } from '../agent/agent-printer.ts';
import { findSession } from '../backend/find-server.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, keepColours } from '../format.ts';
import type { CliTerminal } from '../terminal/terminal.ts';

interface LogsRequest {
  readonly name: string;
  readonly after: number;
  readonly follow: boolean;
  readonly json: boolean;
}

export async function logs(
  client: Client,
  { name, after, follow, json }: LogsRequest,
  { terminal, signal }: { readonly terminal: CliTerminal; readonly signal: AbortSignal },
): Promise<number> {
  const session = await client.session((await findSession(client, name)).id);
  const events = follow ? session.events({ after, signal }) : pages(session, after);
  const agents = new LoggedTurnPrinter();
  for await (const event of events) {
    if (json) await terminal.outLines(JSON.stringify(event));
    else await showEvent(event, terminal, agents);
  }
  signal.throwIfAborted();
  return Exit.ok;
}

async function* pages(session: ClientSession, after: number): AsyncGenerator<StreamItem> {
  for (let from = after; ; ) {
    const { events, next, last } = await session.eventPage({ after: from });
    yield* events;
    if (next >= last || next === from) return;
    from = next;
  }
}

async function showEvent(event: StreamItem, terminal: CliTerminal, agents: LoggedTurnPrinter): Promise<void> {
  // The reader of a log did not run the code, which must not control their screen.
  const shown = (text: string) => (terminal.stdout.isTTY ? keepColours(text) : text);
  switch (event.type) {
    case 'execution_started':
      return await terminal.outLines(
        event.code
          .replace(/\n+$/, '')
          .split('\n')
          .map((line, index) => `${index === 0 ? '>>>' : '...'} ${escapeControls(line)}`)
          .join('\n'),
        'bold',
      );
    case 'stdout':
      return await terminal.out(shown(event.text));
    case 'stderr':
      return await terminal.out(shown(event.text), 'yellow');
    case 'output_file':
      return await terminal.outLines(`(the rest of ${event.stream} is in ${event.file.file})`, 'dim');
    case 'input_request':
      return await terminal.outLines(
        event.prompt ? `(asks: ${escapeControls(event.prompt)})` : '(asks for input)',
        'dim',
      );
    case 'result':
      if (event.error) await terminal.outLines(shown(event.error.traceback), 'red');
      if (event.status === 'timeout') await terminal.outLines('(stopped at its time limit)', 'red');
      if (event.error) return;
      if (event.repr !== undefined) await terminal.outLines(shown(event.repr));
      return;
    case 'execution_failed':
      return await terminal.outLines(`(${event.error.code}: ${escapeControls(event.error.message)})`, 'red');
    case 'interrupted':
      return await terminal.outLines(`(${escapeControls(event.reason)})`, 'red');
    case 'session_state':
      return await terminal.outLines(`(${event.change.replaceAll('_', ' ')})`, 'dim');
    case 'trimmed':
      return await terminal.outLines(`(events up to ${event.throughSeq} are no longer kept)`, 'dim');
    default:
      return await showAgent(event, terminal, agents);
  }
}

async function showAgent(event: StreamItem, terminal: CliTerminal, agents: LoggedTurnPrinter): Promise<void> {
  const parsed = AgentLogEvent.safeParse(event);
  if (!parsed.success) return;
  for (const { text, style, whole } of agents.take(parsed.data)) {
    await (whole ? terminal.outLines(text, style) : terminal.out(text, style));
  }
}
