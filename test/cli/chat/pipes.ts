/** Chats through pipes, for the suites of `cella chat`: in a process of their own, and in this one. */

import { afterAll, afterEach, beforeEach } from 'vitest';
import { type HereOptions, runHere } from '../../support/cli/cli-here.ts';
import { Cella, type Started, type StartOptions } from '../../support/cli/command.ts';

interface Said {
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}

export interface Chats {
  /** Each test has a data folder of its own. */
  readonly cella: () => Cella;
  /** In a process of its own. */
  readonly send: (lines: readonly string[], flags?: readonly string[], options?: StartOptions) => Promise<Said>;
  /** In this process, where chats leave nothing to each other. */
  readonly sendHere: (lines: readonly string[], flags?: readonly string[], options?: HereOptions) => Promise<Said>;
  /** The same, and nobody is asked before a shell runs. */
  readonly chat: (...lines: string[]) => Promise<Said>;
  /** A chat that goes on; `says` waits for what its lines print. */
  readonly open: (...flags: string[]) => Promise<Started>;
  readonly leave: (started: Started) => Promise<number | string>;
}

/** For the tests of this file. */
export function useChats(): Chats {
  let cella: Cella;
  beforeEach(() => {
    cella = new Cella();
  });
  afterEach(() => cella[Symbol.dispose]());
  const place = new Cella();
  afterAll(() => place[Symbol.dispose]());
  const sendHere: Chats['sendHere'] = (lines, flags = [], options = {}) =>
    runHere(['chat', ...flags], place.dataDir, { input: inputOf(lines), ...options });
  return {
    cella: () => cella,
    send: (lines, flags = [], options = {}) => cella.run(['chat', ...flags], { input: inputOf(lines), ...options }),
    sendHere,
    chat: (...lines) => sendHere(lines, ['--auto-sh']),
    open: async (...flags) => {
      const started = cella.start(['chat', ...flags]);
      started.type('/py print("ready")\n');
      await started.says('ready');
      return started;
    },
    leave: async (started) => {
      started.child.stdin?.end();
      return await started.ended;
    },
  };
}

function inputOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('');
}
