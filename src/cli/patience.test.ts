import { EventEmitter } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import type { SessionApi } from '../session/api.ts';
import type { OpenOptions } from './context.ts';
import { withStartupStatus } from './patience.ts';
import { Terminal } from './terminal/terminal.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function opening(options: Pick<OpenOptions, 'executor'>, { screen = true } = {}) {
  const stderr = Object.assign(new PassThrough(), { isTTY: screen });
  const terminal = new Terminal({ stdin: Readable.from([]), stdout: new PassThrough(), stderr, noColor: true });
  const opened = Promise.withResolvers<SessionApi>();
  const asked = Promise.withResolvers<OpenOptions>();
  const openSession = (all: OpenOptions) => {
    asked.resolve(all);
    return opened.promise;
  };
  const open = withStartupStatus({ terminal, signals: new EventEmitter(), openSession });
  const done = open({ dataDir: '/', sandbox: 'on', ...options }).catch(() => {});
  const shown = () => String(stderr.read() ?? '');
  return { shown, asked: asked.promise, end: () => opened.reject(new CellaError('KERNEL_DIED', 'gone')), done };
}

describe('a kernel that is slow to start', () => {
  it.each([
    ['in-process', 'Starting Python in WebAssembly; the first time takes a while'],
    ['container', 'Starting a container; the first one of an image takes a while'],
    ['auto', 'Starting a kernel'],
  ] as const)('is told of at a screen, and the line goes away: %s', async (executor, words) => {
    const { shown, end, done } = opening({ executor });
    expect(shown()).toBe('');
    vi.advanceTimersByTime(1000);
    expect(shown()).toBe(`\r\u001b[K${words}`);
    end();
    await done;
    expect(shown()).toBe('\r\u001b[K');
  });

  it('is not told of while something else is', async () => {
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

  it('is not told of where nobody looks', async () => {
    const { shown, end, done } = opening({ executor: 'in-process' }, { screen: false });
    vi.advanceTimersByTime(60_000);
    end();
    await done;
    expect(shown()).toBe('');
  });
});
