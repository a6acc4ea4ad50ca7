import { EventEmitter } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import type { SessionApi } from '../session/api.ts';
import type { OpenOptions } from './backend/backend.ts';
import { openWithStatus, Signals } from './command-lifecycle.ts';
import { CliTerminal } from './terminal/terminal.ts';

describe('Signals', () => {
  it('ends the command if nobody handles the interrupt', async () => {
    const source = new EventEmitter();
    const taken = [true, false];
    using signals = new Signals(source, () => taken.shift() ?? false);
    source.emit('SIGINT');
    expect(signals.exitCode).toBeUndefined();
    source.emit('SIGINT');
    expect(await signals.ended).toBe(130);
  });

  it('restores the default of the next Ctrl-C during cleanup', () => {
    const source = new EventEmitter();
    using _signals = new Signals(source, () => false);
    source.emit('SIGINT');
    expect(source.listenerCount('SIGINT')).toBe(0);
    expect(source.listenerCount('SIGTERM')).toBe(1);
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ])('%s ends the command with %i, and the first signal counts', async (signal, exitCode) => {
    const source = new EventEmitter();
    using signals = new Signals(source, () => true);
    source.emit(signal);
    source.emit('SIGTERM');
    expect(await signals.ended).toBe(exitCode);
  });

  it('stops listening when disposed', () => {
    const source = new EventEmitter();
    new Signals(source, () => true)[Symbol.dispose]();
    expect(source.eventNames()).toEqual([]);
  });
});

function opening(options: Pick<OpenOptions, 'executor'>, { screen = true } = {}) {
  const stderr = Object.assign(new PassThrough(), { isTTY: screen });
  const terminal = new CliTerminal({ stdin: Readable.from([]), stdout: new PassThrough(), stderr, noColor: true });
  const opened = Promise.withResolvers<SessionApi>();
  const asked = Promise.withResolvers<OpenOptions>();
  const openSession = (all: OpenOptions) => {
    asked.resolve(all);
    return opened.promise;
  };
  const work = openWithStatus({ dataDir: '/', sandbox: 'on', ...options }, { terminal, backend: { openSession } });
  const done = work.catch(() => {});
  const shown = () => String(stderr.read() ?? '');
  return { shown, asked: asked.promise, end: () => opened.reject(new CellaError('KERNEL_DIED', 'gone')), done };
}

describe('a kernel that is slow to start', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it.each([
    ['in-process', 'Starting Python in WebAssembly; the first time takes a while'],
    ['container', 'Starting a container; the first one of an image takes a while'],
    ['auto', 'Starting a kernel'],
  ] as const)('is announced at a terminal, and the line disappears: %s', async (executor, words) => {
    const { shown, end, done } = opening({ executor });
    expect(shown()).toBe('');
    vi.advanceTimersByTime(1000);
    expect(shown()).toBe(`\r\u001b[K${words}`);
    end();
    await done;
    expect(shown()).toBe('\r\u001b[K');
  });

  it('is not announced while something else is', async () => {
    const { shown, asked, end, done } = opening({ executor: 'in-process' });
    const { onProgress } = await asked;
    for (let round = 0; round < 5; round += 1) {
      vi.advanceTimersByTime(500);
      onProgress?.('Installing tiny');
    }
    expect(shown()).toBe('');
    end();
    await done;
  });

  it('is not announced without a terminal', async () => {
    const { shown, end, done } = opening({ executor: 'in-process' }, { screen: false });
    vi.advanceTimersByTime(60_000);
    end();
    await done;
    expect(shown()).toBe('');
  });
});
