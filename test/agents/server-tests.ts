/** What an agent has of the server that it is prompted by: the session's kernel, and an end to its time. */

import { expect, test } from 'vitest';
import { allow, type Suite, textsOf } from './suite.ts';

/** Leaves so many processes behind that nobody waits for, and tells how many of that kind there are. */
const LEAVE = `
import os, subprocess, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        subprocess.Popen(['sleep', '43210'], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os._exit(0)
    os.wait()
def command(pid):
    try:
        return open('/proc/%s/cmdline' % pid).read()
    except OSError:
        return ''
def left():
    return sum(command(pid) == 'sleep\\0' + '43210\\0' for pid in os.listdir('/proc') if pid.isdigit())
while left() < int(sys.argv[1]):  # one that has just begun has no words yet
    time.sleep(0.01)
print('left:', left())
`;

export function serverTests(suite: () => Suite): void {
  test('the person sees the variables that the agent sets, and the agent those of the person', async () => {
    const { place } = suite();
    await place.run('from_person = 20');
    const outcome = await place.prompt('#cell from_agent = from_person + 1; print(from_agent)', { permit: allow });
    expect(textsOf(outcome).at(-1)).toContain('21');
    expect(await place.run('from_agent * 2')).toBe(42);
  });

  test('gets the files of its profile, and an existing file stays', async () => {
    const { place } = suite();
    await suite().put('cups/own.txt', 'of the person');
    const outcome = await place.prompt('#run cat cups/first.txt cups/own.txt', { mode: 'bypass', profiled: true });
    expect(textsOf(outcome).at(-1)).toContain('of the profileof the person');
  });

  test('processes that its commands leave running end with the turn, and never get the next turn’s token', async () => {
    const { place } = suite();
    await suite().put('leave.py', LEAVE);
    const left = await place.prompt(`#run python3 ${suite().inside('leave.py')} 2`, { mode: 'bypass' });
    expect(textsOf(left).at(-1)).toContain('left: 2');
    const next = await place.prompt(`#run python3 ${suite().inside('leave.py')} 0`, { mode: 'bypass' });
    expect(textsOf(next).at(-1)).toContain('left: 0');
  });

  test('a provider that hangs fails the turn at its timeout', async () => {
    const outcome = await suite().place.prompt('#hang', { timeoutMs: 2500 });
    expect(outcome.status).toBe('timed_out');
  });

  test('a provider that cannot be reached fails the turn with the reason, without minutes of retries', async () => {
    await using _away = await suite().model.leave();
    const { status, error } = await suite().place.prompt('#plain');
    expect({ status, error }).toMatchObject({
      status: 'failed',
      error: { code: 'PROVIDER_FAILED', message: expect.stringContaining('it cannot be reached (ECONNREFUSED)') },
    });
  });
}
