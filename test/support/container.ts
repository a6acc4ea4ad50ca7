/** Sessions in containers for tests, on the engine that the files of a run share. */

import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';
import { type Open, openSession } from './session.ts';

let address: Promise<string> | undefined;

/** The shared engine, with the default image in it. */
export function engineAddress(): Promise<string> {
  address ??= process.env.DEV_ENGINE ? Promise.resolve(process.env.DEV_ENGINE) : ask();
  return address;
}

async function ask(): Promise<string> {
  const door = connect(inject('dockerDoor'));
  door.write('image\n');
  const answer = await text(door);
  if (!answer.startsWith('unix://')) throw new Error(answer);
  return answer;
}

export const openContainer: Open = async (options = {}) =>
  await openSession({ executor: 'container', engine: await engineAddress(), ...options });
