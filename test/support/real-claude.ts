/** The real Claude in an enclosure: asked through a gateway that leads to a stand-in model on loopback. */

import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import type { AgentEnclosure } from '../../src/session/agent-enclosure.ts';
import { type Finished, finish, openGateway } from './agent-enclosure.ts';

/** The SDK, from the folder that it was installed in. */
const SDK = 'node_modules/@anthropic-ai/claude-agent-sdk';

/** A gateway that leads to a port of this machine. */
export async function gatewayTo(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const forward = createServer((socket) => {
    const model = connect(Number(port), hostname);
    // Either side may hang up at any time; the other is told by that.
    pipeline(socket, model, () => {});
    pipeline(model, socket, () => {});
  });
  return await openGateway(forward);
}

/** Its messages come on stdout, one a line. `folder` is where, below the installed programs, its node_modules is. */
export async function askClaude(enclosure: AgentEnclosure, prompt: string, folder = '.'): Promise<Finished> {
  const { node, runner, programs, socket } = enclosure.paths;
  const argv = [`${node}/node`, `${runner}/ask-claude.mjs`, join(programs, folder, SDK), socket];
  return await finish(enclosure, { argv }, prompt);
}
