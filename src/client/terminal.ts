/** Opens a terminal of a session at a server. */

import { OpenTerminal } from '../protocol/api/execution-routes.ts';
import { CellaError } from '../protocol/errors.ts';
import { type Terminal, TerminalOptions } from '../protocol/workspace-models.ts';
import { isCode } from './failure.ts';
import type { Link } from './link.ts';
import { checkedTerminal, RemoteTerminal } from './remote-terminal.ts';

export async function openTerminal(
  link: Link,
  id: string,
  options: TerminalOptions,
  closing: AbortSignal,
): Promise<Terminal> {
  const { cols, rows, argv } = checkedTerminal(TerminalOptions, options);
  const given = { params: { id }, query: { cols, rows, argv } };
  const socket = link.socket(OpenTerminal, given);
  if (!socket) {
    const message = 'A page cannot open a terminal with a token: a browser logs in, and its cookie goes along.';
    throw new CellaError('CAPABILITY_MISSING', message);
  }
  const terminal = new RemoteTerminal(socket, link, closing);
  if (await terminal.opened) return terminal;
  // A WebSocket does not tell why it was refused; a request does.
  await link.call(OpenTerminal, given).catch((error) => {
    if (!isCode(error, 'INVALID_REQUEST')) throw error;
  });
  throw new CellaError('DAEMON_UNREACHABLE', `The terminal could not be opened at ${link.where}.`);
}
