/** A user of a server who causes load for others. As a program, it causes one kind of load until its parent ends. */

import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

export interface NoisyUserFacts {
  readonly url: string;
  readonly token: string;
  readonly session: string;
}

/** A user of a server with one session. */
export class NoisyUser {
  readonly #url: string;
  readonly #token: string;
  readonly session: string;

  constructor({ url, token, session }: NoisyUserFacts) {
    this.#url = url;
    this.#token = token;
    this.session = session;
  }

  async ask(what: string, body?: unknown): Promise<Record<string, unknown>> {
    const [method = 'GET', path = '/'] = what.replace('~', `/v1/sessions/${this.session}`).split(' ');
    const response = await fetch(new URL(path, this.#url), {
      method,
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${what} was answered with ${response.status}: ${text.slice(0, 200)}`);
    return text === '' ? {} : JSON.parse(text);
  }

  async run(code: string, timeoutMs = 0): Promise<void> {
    const { status } = await this.ask('POST ~/execute', { code, timeoutMs });
    if (status !== 'ok') throw new Error(`The server answered ${status} to ${code.slice(0, 80)}`);
  }
}

/** Runs until it is stopped. Ignores refusals and dead kernels: limits are part of the measurement. */
type Noise = (noisy: NoisyUser, stop: AbortSignal) => Promise<void>;

/** Cells of that code, one after the other. */
const cells =
  (code: string): Noise =>
  async (noisy, stop) => {
    while (!stop.aborted) await noisy.ask('POST ~/execute', { code, timeoutMs: 20_000 }).catch(() => delay(20));
  };

/** Several at once, repeated. */
const calls =
  (atOnce: number, call: (noisy: NoisyUser) => Promise<unknown>): Noise =>
  async (noisy, stop) => {
    const one = async () => {
      while (!stop.aborted) await call(noisy).catch(() => delay(20));
    };
    await Promise.all(Array.from({ length: atOnce }, one));
  };

/** A key for a provider that checks none. */
export const KEY = 'sk-ant-bench';

export const noises: Readonly<Record<string, Noise>> = {
  'computes in 200 processes, each a session of its own': cells(`
import os, signal
pids = []
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        # A scheduler that counts sessions is to be fooled, too.
        os.setsid()
        while True: pass
    pids.append(pid)
try:
    signal.pause()
finally:
    for pid in pids: os.kill(pid, signal.SIGKILL)`),
  'takes all memory that it can get': cells(`
blocks = []
while True:
    blocks.append(bytearray(b'x') * (32 << 20))`),
  'prints without end': cells(`
import sys
while True: sys.stdout.write('x' * 65536 + '\\n')`),
  'fills its disk': cells(`
import os
while True:
    with open('big', 'wb') as file:
        for _ in range(512): file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    for number in range(5000): open('small%d' % number, 'w').close()
    for number in range(5000): os.remove('small%d' % number)`),
  'saves 200 MB again and again': async (noisy, stop) => {
    await noisy.run('import os; big = os.urandom(200 << 20); count = 0');
    while (!stop.aborted) {
      await noisy.ask('POST ~/execute', { code: 'count += 1; big = os.urandom(200 << 20)' }).catch(() => delay(20));
      await noisy.ask('POST ~/save', {}).catch(() => delay(20));
    }
  },
  'forks processes without end': cells(`
import os
while True:
    try:
        if os.fork() == 0: os._exit(0)
        os.waitpid(-1, os.WNOHANG)
    except OSError: pass`),
  'forks its session 4 at a time': calls(4, async (noisy) => {
    const { id } = await noisy.ask('POST ~/fork', { agentKey: randomUUID() });
    await noisy.ask(`POST /v1/sessions/${id}/execute`, { code: 'x=1' });
    await noisy.ask(`DELETE /v1/sessions/${id}`);
  }),
  'prompts the agents of 4 sessions, 4 at a time each': async (noisy, stop) => {
    await noisy.ask('PUT /v1/credentials/anthropic', { value: KEY });
    const sessions = await Promise.all(
      [1, 2, 3, 4].map(async () => (await noisy.ask('POST /v1/sessions', { agentKey: randomUUID() })).id),
    );
    const prompts = sessions.map((id) =>
      calls(4, (one) => one.ask(`POST /v1/sessions/${id}/prompt`, { prompt: 'x'.repeat(20_000) })),
    );
    const prompting = Promise.all(prompts.map((noise) => noise(noisy, stop)));
    if (!stop.aborted) await once(stop, 'abort');
    // Ends the turns that still run or wait.
    await Promise.all(sessions.map((id) => noisy.ask(`DELETE /v1/sessions/${id}`)));
    await prompting;
  },
  'prompts 16 at a time, and is refused for want of a key': async (noisy, stop) => {
    await noisy.ask('DELETE /v1/credentials/anthropic');
    await calls(16, (one) => one.ask('POST ~/prompt', { prompt: 'x'.repeat(200_000) }))(noisy, stop);
  },
};

if (import.meta.main) {
  const stop = new AbortController();
  process.once('disconnect', () => stop.abort());
  const [{ facts, name }] = await once(process, 'message');
  await noises[name]?.(new NoisyUser(facts), stop.signal);
}
