import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Signals } from './command-lifecycle.ts';

describe('Signals', () => {
  it('ends the command where nobody takes the interrupt', async () => {
    const source = new EventEmitter();
    const taken = [true, false];
    using signals = new Signals(source, () => taken.shift() ?? false);
    source.emit('SIGINT');
    expect(signals.exitCode).toBeUndefined();
    source.emit('SIGINT');
    expect(await signals.ended).toBe(130);
  });

  it('leaves the next Ctrl-C to its default while things are closed', () => {
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

  it('listens no more when disposed', () => {
    const source = new EventEmitter();
    new Signals(source, () => true)[Symbol.dispose]();
    expect(source.eventNames()).toEqual([]);
  });
});
