/** The engine that all files of a run share; docker-setup.ts starts it when the first file asks. */

import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';
import { engineKind } from './docker.ts';

/** The address of the engine that all files of a run share. It is started by the first that asks. */
export async function sharedEngine(): Promise<string> {
  return await ask('engine');
}

/** The same, once it has the default image. */
export async function sharedEngineWithImage(): Promise<string> {
  return await ask('image');
}

async function ask(what: string): Promise<string> {
  const socket = connect(inject('dockerSocket'));
  socket.write(`${engineKind()} ${what}\n`);
  const answer = (await text(socket)).trim();
  if (answer.startsWith('unix://')) return answer;
  throw new Error(`the engine of the tests did not start: ${answer}`);
}

declare module 'vitest' {
  interface ProvidedContext {
    dockerSocket: string;
  }
}
