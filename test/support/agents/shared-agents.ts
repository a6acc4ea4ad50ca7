/** The programs of agents that all files of a run share; agents-setup.ts installs them when the first file asks. */

import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';

/** The folder of an agent's program: its `programDir`. */
export async function sharedProgram(agent: string): Promise<string> {
  const socket = connect(inject('agentsSocket'));
  socket.write(`${agent}\n`);
  const answer = (await text(socket)).trim();
  if (answer.startsWith('/')) return answer;
  throw new Error(`the program of ${agent} could not be installed for the tests: ${answer}`);
}

declare module 'vitest' {
  interface ProvidedContext {
    agentsSocket: string;
  }
}
